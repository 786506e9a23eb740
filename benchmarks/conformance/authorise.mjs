// Preloaded into the suite, which has no option for headers: puts the agent's token on every request,
// so that the server is tried as it is served, behind its own door.
import { subscribe } from "node:diagnostics_channel";

const value = `Bearer ${process.env.KERNELARC_TOKEN}`;
subscribe("undici:request:create", ({ request }) => request.addHeader("Authorization", value));
subscribe("http.client.request.created", ({ request }) => request.setHeader("Authorization", value));

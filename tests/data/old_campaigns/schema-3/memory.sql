BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'kernelarc_memory','m001_conclusions','2026-11-30 05:35:43.437771+00:00');
CREATE TABLE "conclusion" (
   "id" INTEGER PRIMARY KEY,
   "operator_class" TEXT NOT NULL,
   "device" TEXT NOT NULL,
   "kind" TEXT NOT NULL,
   "digest" TEXT NOT NULL,
   "summary" TEXT NOT NULL,
   "lesson" TEXT NOT NULL,
   "seen" INTEGER NOT NULL
);
INSERT INTO "conclusion" VALUES(1,'elementwise','cpu','win','f11fe6907efdffb630de3f955521bc6370c8a1dbe3916ba364ed69ccac40a395','It is faster','By a fifth.',1);
CREATE TABLE "proof" (
   "id" INTEGER PRIMARY KEY,
   "conclusion" INTEGER NOT NULL REFERENCES "conclusion"("id"),
   "campaign" TEXT NOT NULL,
   "evidence" TEXT NOT NULL,
   "agent" TEXT NOT NULL,
   "lens" TEXT,
   "verdict" TEXT NOT NULL,
   "reason" TEXT,
   "speedup" REAL,
   "at" TEXT NOT NULL,
   "position" INTEGER NOT NULL
);
INSERT INTO "proof" VALUES(1,1,'test','s001','ada','operator-fusion','KEEP','confirmed',1.22136746,'2026-11-30T05:35:43.380174+00:00',3);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE UNIQUE INDEX "idx_conclusion_operator_class_device_kind_digest"
    ON "conclusion" ("operator_class", "device", "kind", "digest");
CREATE UNIQUE INDEX "idx_proof_conclusion_campaign_evidence"
    ON "proof" ("conclusion", "campaign", "evidence");
COMMIT;

"""A campaign is shown what fits its device and operator, and told what a verdict means."""

import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from host_places import make_settings

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.fitting import FILE, fitting_pages, fitting_templates, load_fits
from kernelarc_mcp.host.glossary import verdicts_text
from kernelarc_mcp.host.guides import templates
from kernelarc_mcp.host.lenses import load_eligibility

FOLDER: Final = data_dir("strategies")


def names(operator_class: str, device: str) -> set[str]:
    return {one.name for one in fitting_templates(operator_class, device)}


def test_a_gpus_product_is_shown_no_template_for_a_cpu_for_rows_or_for_selection() -> None:
    shown = names("gemm_bf16", "cuda:0")
    assert {"wgmma_tile", "tma_tile", "tuned_product"} <= shown
    assert not shown & {"register_tile", "online_rows", "radix_select", "wide_loads"}


def test_rows_on_a_cpu_are_shown_cpu_templates() -> None:
    assert {"row_in_cache", "two_float_sum"} <= names("rmsnorm", "cpu")
    assert all(one.runs_on("cpu") for one in fitting_templates("rmsnorm", "cpu"))


def test_every_template_fits_some_class_and_every_class_has_some() -> None:
    classes = load_eligibility(FOLDER).classes
    shown = {device: {c: names(c, device) for c in classes} for device in ("cpu", "cuda:0")}
    assert all(found for by_class in shown.values() for found in by_class.values())
    everywhere = [found for by_class in shown.values() for found in by_class.values()]
    assert set().union(*everywhere) == set(templates())


def test_a_cpu_campaign_is_not_shown_a_course_about_tensor_cores() -> None:
    assert {page.course for page in fitting_pages("gemm", "cpu")} == {"memory-bound"}
    assert fitting_pages("gemm", "cuda:0")[0].course == "hopper-gemm"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"groups": {"products": ["nobody"]}}, "groups.products: there is no class 'nobody'"),
        ({"templates": {"mma_tile": "nothing"}}, "templates.mma_tile: there is no group 'nothing'"),
        ({"templates": {"nothing": "products"}}, "templates.nothing: there is no such template"),
        ({"groups": 3}, "groups: Input should be a valid dictionary"),
        ({"more": 3}, "more: Extra inputs are not permitted"),
    ],
)
def test_a_malformed_table_is_refused_with_field_and_fault(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    copy = tmp_path / "strategies"
    shutil.copytree(FOLDER, copy)
    path = copy / "templates" / FILE
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(CampaignError, match=re.escape(f"{FILE}: {told}")):
        load_fits(copy)


def test_how_to_read_a_verdict_names_every_reason_a_submission_can_have() -> None:
    text = verdicts_text(make_settings())
    assert len(text) < 10_000
    for code, reason in REASONS.items():
        assert (f"`{code}`" in text) is bool(reason.verdicts), code


def test_the_examples_of_a_verdict_are_in_the_devices_own_language() -> None:
    cpu, gpu = (verdicts_text(make_settings(device=one)) for one in ("cpu", "cuda:0"))
    assert "kernel.cpp:12" in cpu and "registers" not in cpu
    assert "kernel.cu:12" in gpu and "registers" in gpu

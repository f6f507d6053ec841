"""docs/faults.md says what the models say."""

from notleader.faults.base import Fault
from notleader.faults.docs import PAGE, page


def test_the_page_is_as_generated() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m notleader.faults.docs`"


def test_every_kind_and_each_of_its_fields_is_on_the_page() -> None:
    text = page()
    for kind, model in Fault.kinds.items():
        section = text.partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
        for name in set(model.model_fields) - {"kind", "name", "match", "trigger", "phase"}:
            assert f"- `{name}` (" in section, (kind, name)

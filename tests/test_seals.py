import json

import pytest

from fewlabels.files import add_checksum, verify_checksum

ENTRY = {"schema_version": 3, "ids": ["a.png@0f", 'ü"}\u2028'], "value": 0.1}
FORMS = {
    "a line": json.dumps(ENTRY, ensure_ascii=False),
    "a line with its end": json.dumps(ENTRY) + "\n",
    "a file": json.dumps(ENTRY, indent=2) + "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_sealed_is_read_and_stays_json(form):
    text = FORMS[form]
    whole = add_checksum(text)
    assert json.loads(whole).keys() == {*ENTRY, "checksum"}
    assert next(iter(json.loads(whole))) == "schema_version"
    assert whole[-1:] == text[-1:]
    for content in (whole, whole.encode()):
        assert json.loads(verify_checksum(content)) == ENTRY


def test_what_has_no_checksum_is_read_as_it_is():
    text = json.dumps(ENTRY)
    assert verify_checksum(text) == text


@pytest.mark.parametrize("form", FORMS)
def test_no_single_byte_can_change_what_is_read(form):
    """Each bit of each byte, and each byte left out."""
    whole = add_checksum(FORMS[form]).encode()
    for position in range(len(whole)):
        mutants = [whole[:position] + whole[position + 1 :]]
        for bit in range(8):
            flipped = bytes([whole[position] ^ 1 << bit])
            mutants.append(whole[:position] + flipped + whole[position + 1 :])
        for mutant in mutants:
            try:
                found = json.loads(verify_checksum(mutant))
            except ValueError:
                continue
            found.pop("checksum", None)
            assert {name: found.get(name) for name in ENTRY} == ENTRY

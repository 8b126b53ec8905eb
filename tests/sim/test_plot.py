from xml.etree import ElementTree as ET

import pytest

from hamid.errors import TraceError
from hamid.sim import plot
from hamid.sim.plot import Curves, assert_drawable, draw

SVG = "{http://www.w3.org/2000/svg}"
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
ONE = Curves(
    name="one",
    allocated=(((0, 0), (65, 60), (130, 95)), ((0, 0), (66, 50), (130, 90))),
    wasted=(((0, 0), (65, 1), (130, 4)), ((0, 0), (66, 2), (130, 5))),
)
TWO = Curves(name="two", allocated=(((0, 0), (130, 80)),), wasted=(((0, 0), (130, 9)),))


def svg(path, *curves):
    draw(curves, path / "curves.svg", title="A < B")
    return (path / "curves.svg").read_text()


def curve_count(text):
    """Lines in a policy's colour that are longer than the sample in a legend."""
    paths = ET.fromstring(text).iter(f"{SVG}path")
    styles = [path.get("style", "") for path in paths]
    return sum("stroke: #1f77b4" in style and "fill: none" in style for style in styles)


def test_what_is_in_use_and_what_is_wasted_are_both_drawn_and_named(tmp_path):
    text = svg(tmp_path, ONE)

    assert curve_count(text) == 3  # one in each panel, one in the legend
    for said in (">A &lt; B<", "one", "in use, % of all cards", "fragmentation: free but"):
        assert said in text


def test_each_policy_has_a_colour_and_a_place_in_the_legend(tmp_path):
    text = svg(tmp_path, ONE, TWO)

    assert "#1f77b4" in text
    assert "#ff7f0e" in text
    assert ">two<" in text


def test_equal_curves_make_equal_files(tmp_path):
    assert svg(tmp_path, ONE, TWO) == svg(tmp_path, ONE, TWO)


def test_a_name_that_ends_with_png_makes_one(tmp_path):
    draw([ONE], tmp_path / "curves.png", title="A")

    assert (tmp_path / "curves.png").read_bytes().startswith(PNG_MAGIC)


def test_nothing_to_draw_is_still_a_picture(tmp_path):
    nothing = Curves(name="one", allocated=((),), wasted=((),))

    assert svg(tmp_path).startswith("<?xml")
    assert svg(tmp_path, nothing).startswith("<?xml")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("curves.pdf", "neither PNG nor SVG"),
        ("curves", "neither PNG nor SVG"),
    ],
)
def test_what_cannot_be_drawn_is_said_before_the_replay(tmp_path, name, said):
    with pytest.raises(TraceError, match=said):
        assert_drawable(tmp_path / name)


def test_without_the_library_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "find_spec", lambda _: None)

    with pytest.raises(TraceError, match="needs matplotlib") as caught:
        assert_drawable(tmp_path / "curves.png")

    assert "hamid[plot]" in caught.value.hint

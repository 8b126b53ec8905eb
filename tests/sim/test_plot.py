from xml.etree import ElementTree as ET

from hamid.sim.plot import COLOURS, Curve, picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*curves):
    return ET.fromstring(picture(curves, title="A < B", x_label="x", y_label="y"))


def lines(root):
    return root.findall(f"{SVG}polyline")


def test_each_curve_is_a_line_and_its_name_is_in_the_legend():
    root = drawn(Curve(name="one", points=((0, 0), (130, 95))), Curve(name="two", points=((0, 5),)))

    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert len(lines(root)) == 2
    assert {"one", "two", "A < B"} <= set(texts)


def test_curves_of_one_name_share_a_colour_and_minor_ones_are_dashed():
    solid, dashed = lines(
        drawn(
            Curve(name="one", points=((0, 0),)), Curve(name="one", points=((0, 1),), is_dashed=True)
        )
    )

    assert solid.get("stroke") == dashed.get("stroke") == COLOURS[0]
    assert solid.get("stroke-dasharray") is None
    assert dashed.get("stroke-dasharray")


def test_the_largest_load_ends_at_the_right_edge_and_more_is_higher():
    (line,) = lines(drawn(Curve(name="one", points=((0, 0), (130, 100)))))

    (left, bottom), (right, top) = (
        map(float, point.split(",")) for point in line.get("points").split()
    )
    assert (left, right) == (64, 700)
    assert top < bottom


def test_nothing_to_draw_is_still_a_picture():
    assert lines(drawn()) == []

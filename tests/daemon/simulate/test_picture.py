from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from hamid.daemon.simulate.outcomes import Outcome, PodState
from hamid.daemon.simulate.picture import CardRow, Holder, Picture


def holders(count, memory_mib=1000):
    return tuple(Holder(name=f"p-{n}", memory_mib=memory_mib, core_percent=5) for n in range(count))


def card(index=0, count=0, **more):
    values = {"node": "n", "index": index, "model": "NVIDIA A100-SXM4-80GB", "memory_mib": 81_920}
    return CardRow(**(values | more), holders=holders(count))


def picture(*cards, waiting=(), bare=()):
    return Picture(
        cards=cards,
        waiting=tuple(waiting),
        counts=Counter({PodState.RUNNING: 2, PodState.PENDING: len(tuple(waiting))}),
        bare_nodes=tuple(bare),
        head=("kubectl …",),
    )


def lines(shown, *, width=120, height=40):
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(shown.render(console, height=height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_card_shows_what_is_given_and_to_whom():
    text = "\n".join(lines(picture(card(count=2))))

    assert "0 A100-SXM4-80GB" in text
    assert "2000 of 81920" in text
    assert "10 %" in text
    assert "p-0 1000 MiB 5 %" in text
    assert "p-1 1000 MiB 5 %" in text


def test_a_card_that_nobody_holds_is_free():
    assert any(line.endswith("free") for line in lines(picture(card())))


@pytest.mark.parametrize(
    ("used", "bar"),
    [
        pytest.param(0, "░" * 10, id="nothing"),
        pytest.param(1, "█" + "░" * 9, id="a little shows"),
        pytest.param(81_919, "█" * 9 + "░", id="full means full"),
        pytest.param(81_920, "█" * 10, id="all"),
    ],
)
def test_the_bar(used, bar):
    row = CardRow(node="n", index=0, model="m", memory_mib=81_920, holders=holders(1, used))

    assert any(bar in line for line in lines(picture(row)))


def test_a_narrow_terminal_does_without_the_bar():
    assert not any("░" in line for line in lines(picture(card()), width=80))


def test_why_a_pod_waits_is_said_in_full():
    reason = "0/4 nodes are available: " + "no card fits, " * 12
    waiting = [Outcome(pod="default/a", state=PodState.PENDING, reason=reason)]

    text = " ".join(" ".join(lines(picture(card(), waiting=waiting))).split())

    assert "default/a pending" in text
    assert text.count("no card fits") == 12


@pytest.mark.parametrize("height", [24, 40])
def test_much_is_cut_to_the_height_of_the_terminal(height):
    waiting = [
        Outcome(pod=f"default/p-{n}", state=PodState.PENDING, reason="no room") for n in range(50)
    ]

    shown = lines(picture(*(card(n, 20) for n in range(30)), waiting=waiting), height=height)

    assert len(shown) <= height
    assert any("more" in line for line in shown)


def test_slices_that_do_not_fit_are_summed_up():
    text = "\n".join(lines(picture(card(count=60)), height=24))

    assert "slices" in text
    assert "MiB" in text


def test_nodes_without_cards_are_named():
    assert any("bare" in line and "no cards" in line for line in lines(picture(bare=("bare",))))


def test_the_title_counts_pods_by_state():
    assert "pods: 2 running" in lines(picture(card()))[0]


def test_what_a_pods_author_wrote_is_no_markup():
    reason = "annotation x: '[/b]' is unknown; spec.hard[limits.cpu] is [red]"
    waiting = [Outcome(pod="default/a", state=PodState.REFUSED, reason=reason)]

    assert any(reason in line for line in lines(picture(card(), waiting=waiting), width=160))

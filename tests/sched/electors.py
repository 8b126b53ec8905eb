"""Electors of one fake API server, stepped by hand or in virtual time."""

import asyncio
import random

from prometheus_client import CollectorRegistry

from hamid.kube.fake import FakeKube
from hamid.kube.port import LEASES
from hamid.sched.elector import ElectorMetrics, LeaseElector
from hamid.sched.leader_settings import LeaseSettings

SETTINGS = LeaseSettings()


def make_elector(api, identity, *, clock, settings=SETTINGS, skew_s=0.0):
    return LeaseElector(
        kube=FakeKube(api=api, caller=identity),
        settings=settings,
        identity=identity,
        clock=clock,
        wall_clock=lambda: clock() + 1_700_000_000.0 + skew_s,
        metrics=ElectorMetrics(CollectorRegistry()),
        rng=random.Random(identity),
    )


def make_timed(api, identity):
    """One whose clock is that of the loop."""
    return make_elector(api, identity, clock=asyncio.get_running_loop().time)


async def lease_of(api):
    return await FakeKube(api=api, caller="test").get(
        LEASES, SETTINGS.name, namespace=SETTINGS.namespace
    )

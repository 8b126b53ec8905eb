"""An API server in memory: in the process (`FakeKube`) or over real HTTP (`FakeApiServer`).

It passes the contract suite of the port, and kubectl works against it: get, describe, apply, create,
patch, label, annotate, delete, wait, `get -w`. It does what our own parts can notice; tests rely on
these: resourceVersions over all resources, watches that resume, bookmarks, 410, pages of one list as
of one version, atomic annotated bindings with preconditions, graceful pod deletion, finalizers,
owners, evictions and their dry runs, mutating webhooks, faults, counts.

Not imitated:

- authorisation (`gate.authorize` may be set to a predicate) and quota: both are stored only;
- CEL, validating webhooks and policies, reinvocation of mutating ones;
- controllers: nobody makes pods of a Deployment or a ServiceAccount for a namespace. But what an
  object owns, and what is in a namespace, is deleted with it, at once;
- managedFields and conflicts of server-side apply; field validation (unknown fields are kept);
- readiness in disruption budgets, and their controller: what they allow is as their status says;
- logs, exec, port-forward, proxy;
- defaults and checks beyond those of `rules`; several versions of one group; protobuf.
- Pods get `serviceAccountName`, but no token volume.
"""

from hamid.kube.fake.api import FakeApi
from hamid.kube.fake.faults import Attempt, Fault, FaultKind, Faults, RequestLog
from hamid.kube.fake.features import FakeFeatures
from hamid.kube.fake.kube import FakeKube
from hamid.kube.fake.server import FakeApiServer

__all__ = [
    "Attempt",
    "FakeApi",
    "FakeApiServer",
    "FakeFeatures",
    "FakeKube",
    "Fault",
    "FaultKind",
    "Faults",
    "RequestLog",
]

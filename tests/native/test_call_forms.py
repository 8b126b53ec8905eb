"""Forms of calls that few programs use: older ones, newer ones, those for per-thread streams."""

import pytest

from tests.native.container import CARD, OTHER_CARD
from tests.native.stepwise import said

pytestmark = pytest.mark.native

OUT_OF_MEMORY = 2
LIMIT_MIB = 64


@pytest.fixture
def steps(container):
    """Runs a program (stepwise.py) in a container of 64 MiB on the first card, 200 on the other."""
    container.limit((CARD, LIMIT_MIB), (OTHER_CARD, 200))

    def run(program, *, cuda_version=None):
        if cuda_version:
            machine = container.machine.read_text()
            container.machine.write_text(f"cuda_version={cuda_version}\n\n{machine}")
        return said(container, program)

    return run


def charges(steps, *, card=0):
    """What was charged after each step; all of them went well."""
    assert {step: result for step, (result, *_) in steps.items() if result} == {}
    return {step: charged[card] for step, (_, *charged) in steps.items()}


ARRAY = """
class Flat(Structure):
    _fields_ = [(name, c_uint) for name in ("width", "height", "format", "channels")]
class Deep(Structure):
    _fields_ = [(name, c_uint) for name in ("width", "height", "depth", "format", "channels", "flags")]
first, second = c_void_p(), c_void_p()
shape = {shape}
steps.say("made", cuda.{create}(byref(first), byref(shape)))
steps.say("too much", cuda.{create}(byref(second), byref(shape)))
steps.say("destroyed", cuda.cuArrayDestroy(first))
steps.say("no shape", cuda.{create}(byref(second), None))
"""


@pytest.mark.parametrize(
    ("create", "shape"),
    [
        ("cuArrayCreate", "Flat(16384, 640, 0x20, 1)"),
        ("cuArray3DCreate", "Deep(64, 64, 640, 0x20, 4, 0)"),
    ],
)
def test_arrays_of_before_cuda_3_2_are_charged(steps, create, shape):
    assert steps(ARRAY.format(create=create, shape=shape)) == {
        "made": (0, 40, 0),
        "too much": (OUT_OF_MEMORY, 40, 0),
        "destroyed": (0, 0, 0),
        "no shape": (1, 0, 0),
    }


HANDLE = """
class Place(Structure):
    _fields_ = [("kind", c_int), ("id", c_int)]
class Properties(Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("place", Place), ("win32", c_void_p), ("rest", c_char * 8)]
def create(handle, mib, place, handles=0):
    return cuda.cuMemCreate(byref(handle), c_size_t(mib * MIB), byref(Properties(1, handles, place)), c_ulonglong(0))
handle, other, address = c_ulonglong(), c_ulonglong(), c_ulonglong()
"""

SPARSE = (
    HANDLE
    + """
class Deep(Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_int),
                ("channels", c_uint), ("flags", c_uint)]
class Part(Structure):
    _fields_ = [("of_array", c_int), ("array", c_void_p), ("kind", c_int), ("begin", c_ulonglong * 4),
                ("operation", c_int), ("of_handle", c_int), ("handle", c_ulonglong),
                ("offset", c_ulonglong), ("devices", c_uint), ("flags", c_uint), ("rest", c_uint * 2)]
array = c_void_p()
steps.say("array", cuda.cuArray3DCreate_v2(byref(array), byref(Deep(1024, 1024, 0, 0x20, 4, 0x40))))
steps.say("handle", create(handle, 32, Place(1, 0)))
part = Part(array=array, operation=1, handle=handle, devices=1)
steps.say("mapped", cuda.{map_array}(byref(part), 1, stream))
steps.say("released", cuda.cuMemRelease(handle))
part.operation = 2
steps.say("unmapped", cuda.{map_array}(byref(part), 1, stream))
"""
)


@pytest.mark.parametrize("map_array", ["cuMemMapArrayAsync", "cuMemMapArrayAsync_ptsz"])
def test_memory_that_was_mapped_into_a_sparse_array_stays_charged(steps, map_array):
    assert charges(steps(SPARSE.replace("{map_array}", map_array))) == {
        "array": 0,
        "handle": 32,
        "mapped": 32,
        "released": 32,
        "unmapped": 32,
    }


WAITED = """
address = c_ulonglong()
steps.say("taken", cuda.cuMemAllocAsync(byref(address), c_size_t(32 * MIB), stream))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("waited", cuda.cuCtxSynchronize_v2(context))
"""


def test_what_a_pool_gives_back_while_a_named_context_is_waited_for_is_released(steps):
    assert charges(steps(WAITED)) == {"taken": 32, "freed": 32, "waited": 0}


RESET = """
address = c_ulonglong()
steps.say("taken", cuda.cuMemAlloc_v2(byref(address), c_size_t(32 * MIB)))
steps.say("reset", cuda.{reset}(0))
"""


@pytest.mark.parametrize("reset", ["cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"])
def test_a_reset_releases_what_the_context_held(steps, reset):
    assert charges(steps(RESET.format(reset=reset))) == {"taken": 32, "reset": 0}


GRAPH = """
class Pool(Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("place_kind", c_int), ("place", c_int),
                ("win32", c_void_p), ("most", c_size_t), ("rest", c_char * 56)]
class Alloc(Structure):
    _fields_ = [("pool", Pool), ("access", c_void_p), ("access_count", c_size_t), ("bytes", c_size_t),
                ("address", c_ulonglong)]
class Of(Union):
    _fields_ = [("alloc", Alloc), ("address", c_ulonglong), ("rest", c_longlong * 29)]
class Node(Structure):
    _fields_ = [("kind", c_int), ("reserved", c_int * 3), ("of", Of), ("last", c_longlong)]
class How(Structure):
    _fields_ = [("flags", c_ulonglong), ("stream", c_void_p), ("bad", c_void_p), ("result", c_int)]
def allocation(mib):
    return Alloc(Pool(1, 0, 1, 0), None, 0, mib * MIB)
def after(*nodes):
    return (c_void_p * len(nodes))(*(node.value for node in nodes)), c_size_t(len(nodes))
def add_alloc(mib, *before):
    params = allocation(mib)
    assert cuda.cuGraphAddMemAllocNode(byref(node), graph, *after(*before), byref(params)) == 0
    return params.address
graph, node, made = c_void_p(), c_void_p(), c_void_p()
assert cuda.cuGraphCreate(byref(graph), 0) == 0
"""
ADD = {
    "cuGraphAddMemAllocNode": "byref(node), graph, None, c_size_t(0), byref(params.of.alloc)",
    "cuGraphAddNode": "byref(node), graph, None, c_size_t(0), byref(params)",
    "cuGraphAddNode_v2": "byref(node), graph, None, None, c_size_t(0), byref(params)",
    "cuGraphAddNode_v3": "byref(node), graph, None, None, c_size_t(0), byref(params)",
}
ADDED = (
    GRAPH
    + """
params = Node(kind=10, of=Of(alloc=allocation(%d)))
steps.say("added", cuda.%s(%s))
steps.say("made", cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_ulonglong(0)))
steps.say("launched", cuda.cuGraphLaunch(made, stream))
"""
)


@pytest.mark.parametrize(("add", "arguments"), ADD.items())
def test_what_a_node_will_allocate_is_known_before_the_graph_runs(steps, add, arguments):
    steps_of_too_much = steps(ADDED % (LIMIT_MIB + 2, add, arguments))

    assert steps_of_too_much["launched"] == (OUT_OF_MEMORY, 0, 0)
    assert charges(steps(ADDED % (LIMIT_MIB, add, arguments)))["launched"] == LIMIT_MIB


MAKE = {
    "cuGraphInstantiate": "byref(made), graph, byref(bad), log, c_size_t(len(log))",
    "cuGraphInstantiate_v2": "byref(made), graph, byref(bad), log, c_size_t(len(log))",
    "cuGraphInstantiateWithFlags": "byref(made), graph, c_ulonglong(0)",
    "cuGraphInstantiateWithParams": "byref(made), graph, byref(how)",
    "cuGraphInstantiateWithParams_ptsz": "byref(made), graph, byref(how)",
}
MADE = (
    GRAPH
    + """
bad, log, how = c_void_p(), create_string_buffer(64), How()
add_alloc(%d)
steps.say("made", cuda.%s(%s))
steps.say("launched", cuda.cuGraphLaunch(made, stream))
"""
)


@pytest.mark.parametrize(("make", "arguments"), MAKE.items())
def test_whatever_makes_a_graph_executable_keeps_what_it_will_allocate(steps, make, arguments):
    assert steps(MADE % (LIMIT_MIB + 2, make, arguments)) == {
        "made": (0, 0, 0),
        "launched": (OUT_OF_MEMORY, 0, 0),
    }
    assert charges(steps(MADE % (LIMIT_MIB, make, arguments)))["launched"] == LIMIT_MIB


MOVED = (
    GRAPH
    + """
class Child(Structure):
    _fields_ = [("graph", c_void_p), ("is_moved", c_int)]
parent, params = c_void_p(), Node(kind=4)
assert cuda.cuGraphCreate(byref(parent), 0) == 0
add_alloc(%d)
memmove(byref(params.of), byref(Child(graph.value, 1)), sizeof(Child))
steps.say("moved", cuda.cuGraphAddNode(byref(node), parent, None, c_size_t(0), byref(params)))
steps.say("made", cuda.cuGraphInstantiateWithFlags(byref(made), parent, c_ulonglong(0)))
steps.say("launched", cuda.cuGraphLaunch(made, stream))
"""
)


def test_what_a_child_graph_will_allocate_is_known_before_its_parent_runs(steps):
    assert steps(MOVED % (LIMIT_MIB + 2)) == {
        "moved": (0, 0, 0),
        "made": (0, 0, 0),
        "launched": (OUT_OF_MEMORY, 0, 0),
    }
    assert charges(steps(MOVED % LIMIT_MIB))["launched"] == LIMIT_MIB


UPLOADED = (
    GRAPH
    + """
add_alloc(%d)
steps.say("made", cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_ulonglong(0)))
steps.say("uploaded", cuda.%s(made, stream))
"""
)


@pytest.mark.parametrize("upload", ["cuGraphUpload", "cuGraphUpload_ptsz"])
def test_a_graph_that_is_too_much_is_refused_when_it_is_uploaded(steps, upload):
    assert steps(UPLOADED % (LIMIT_MIB + 2, upload))["uploaded"] == (OUT_OF_MEMORY, 0, 0)
    assert charges(steps(UPLOADED % (LIMIT_MIB, upload)))["uploaded"] == LIMIT_MIB


FREED = (
    GRAPH
    + """
before = []
for _ in range(2):
    address = add_alloc(40, *before)
    last = c_void_p(node.value)
    assert cuda.{free}(byref(node), graph, *after(last), {freed}) == 0
    before = [c_void_p(node.value)]
steps.say("made", cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_ulonglong(0)))
steps.say("launched", cuda.cuGraphLaunch(made, stream))
"""
)


@pytest.mark.parametrize(
    ("free", "freed"),
    [
        ("cuGraphAddMemFreeNode", "c_ulonglong(address)"),
        ("cuGraphAddNode", "byref(Node(kind=11, of=Of(address=address)))"),
    ],
)
def test_blocks_that_a_graph_frees_itself_are_not_added_up(steps, free, freed):
    assert charges(steps(FREED.format(free=free, freed=freed)))["launched"] == 40


# --- where memory is, when it is not where the call is made ---

POOL = (
    GRAPH
    + """
pool, address, other_context = c_void_p(), c_ulonglong(), c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(byref(other_context), 1) == 0
def take(mib, from_pool):
    return cuda.cuMemAllocFromPoolAsync(byref(address), c_size_t(mib * MIB), from_pool, stream)
"""
)


@pytest.mark.parametrize("cuda_version", [13000, 13050], ids=["silent driver", "driver that tells"])
def test_memory_of_another_card_s_own_pool_is_charged_to_that_card(steps, cuda_version):
    told = steps(
        POOL
        + """
assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 1) == 0
steps.say("taken", take(96, pool))
steps.say("too much", take(128, pool))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("trimmed", cuda.cuMemPoolTrimTo(pool, c_size_t(0)))
""",
        cuda_version=cuda_version,
    )

    assert told["taken"] == (0, 0, 96)
    assert told["too much"] == (OUT_OF_MEMORY, 0, 96)


OF_THE_OTHER_CARD = """
def build(mib):
    graph, node, made = c_void_p(), c_void_p(), c_void_p()
    assert cuda.cuGraphCreate(byref(graph), 0) == 0
    params = Alloc(Pool(1, 0, 1, 1), None, 0, mib * MIB)
    assert cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(params)) == 0
    assert cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_ulonglong(0)) == 0
    return made
def capture(mib):
    graph, made = c_void_p(), c_void_p()
    assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 1) == 0
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    assert take(mib, pool) == 0
    assert cuda.cuStreamEndCapture(stream, byref(graph)) == 0
    assert cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_ulonglong(0)) == 0
    return made
steps.say("too much", cuda.cuGraphLaunch({make}(202), stream))
steps.say("launched", cuda.cuGraphLaunch({make}(96), stream))
steps.say("too much beside it", cuda.cuGraphLaunch({make}(128), stream))
"""


@pytest.mark.parametrize("make", ["build", "capture"])
def test_what_a_graph_takes_of_another_card_than_its_stream_s_is_charged_there(steps, make):
    assert steps(POOL + OF_THE_OTHER_CARD.replace("{make}", make)) == {
        "too much": (OUT_OF_MEMORY, 0, 0),
        "launched": (0, 0, 96),
        "too much beside it": (OUT_OF_MEMORY, 0, 96),
    }


KEPT = """
def threshold(mib):
    return cuda.cuMemPoolSetAttribute(pool, 4, byref(c_ulonglong(mib * MIB)))
"""


def test_what_a_pool_keeps_by_its_threshold_stays_charged_until_there_is_less_of_it(steps):
    told = steps(
        POOL
        + KEPT
        + """
assert cuda.cuDeviceGetDefaultMemPool(byref(pool), 0) == 0
steps.say("kept", threshold(64))
steps.say("taken", take(48, pool))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("waited", cuda.cuStreamSynchronize(stream))
steps.say("taken of what is kept", take(40, pool))
steps.say("freed again", cuda.cuMemFreeAsync(address, stream))
steps.say("trimmed to more", cuda.cuMemPoolTrimTo(pool, c_size_t(64 * MIB)))
steps.say("kept no more", threshold(0))
steps.say("waited again", cuda.cuCtxSynchronize())
steps.say("kept again", threshold(64))
steps.say("taken again", take(48, pool))
steps.say("freed once more", cuda.cuMemFreeAsync(address, stream))
steps.say("plain", cuda.cuMemAlloc_v2(byref(address), c_size_t(64 * MIB)))
"""
    )

    assert charges(told) == {
        "kept": 0,
        "taken": 64,
        "freed": 64,
        "waited": 64,
        "taken of what is kept": 64,
        "freed again": 64,
        "trimmed to more": 64,
        "kept no more": 64,
        "waited again": 0,
        "kept again": 0,
        "taken again": 64,
        "freed once more": 64,
        "plain": 64,  # for what a pool keeps without need is given back before a no
    }


@pytest.mark.parametrize(
    "choose",
    [
        "cuDeviceSetMemPool(0, pool)",
        "cuMemSetMemPool(byref((c_int * 2)(1, 0)), 1, pool)",
    ],
    ids=["cuDeviceSetMemPool", "cuMemSetMemPool"],
)
def test_what_is_taken_of_the_pool_that_a_program_chose_for_a_device_is_charged_to_that_pool(
    steps, choose
):
    told = steps(
        POOL
        + KEPT
        + f"""
steps.say("pool", cuda.cuMemPoolCreate(byref(pool), byref(Pool(1, 0, 1, 0))))
steps.say("kept", threshold(64))
steps.say("chosen", cuda.{choose})
steps.say("taken", cuda.cuMemAllocAsync(byref(address), c_size_t(32 * MIB), stream))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("waited", cuda.cuCtxSynchronize())
steps.say("destroyed", cuda.cuMemPoolDestroy(pool))
steps.say("of the default one", cuda.cuMemAllocAsync(byref(address), c_size_t(32 * MIB), stream))
""",
        cuda_version=13000,
    )

    assert charges(told) == {
        "pool": 0,
        "kept": 0,
        "chosen": 0,
        "taken": 32,
        "freed": 32,
        "waited": 32,
        "destroyed": 0,
        "of the default one": 32,
    }


def test_all_that_a_destroyed_pool_has_stays_charged_until_its_last_block_is_freed(steps):
    told = steps(
        POOL
        + """
second = c_ulonglong()
steps.say("pool", cuda.cuMemPoolCreate(byref(pool), byref(Pool(1, 0, 1, 0))))
steps.say("a little", take(2, pool))
steps.say("a little more", cuda.cuMemAllocFromPoolAsync(byref(second), c_size_t(1000), pool, stream))
steps.say("destroyed", cuda.cuMemPoolDestroy(pool))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("waited", cuda.cuCtxSynchronize())
steps.say("the last freed", cuda.cuMemFree_v2(second))
"""
    )

    assert charges(told) == {
        "pool": 0,
        "a little": 32,
        "a little more": 32,
        "destroyed": 32,
        "freed": 32,
        "waited": 32,
        "the last freed": 0,
    }


@pytest.mark.parametrize("kind", [2, 3], ids=["of the host", "of a node of the host"])
def test_memory_of_a_pool_of_host_memory_is_charged_to_no_card(steps, kind):
    told = steps(
        POOL
        + f"""
steps.say("pool", cuda.cuMemPoolCreate(byref(pool), byref(Pool(1, 0, {kind}, 0))))
steps.say("taken", take(2 * 64, pool))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("destroyed", cuda.cuMemPoolDestroy(pool))
steps.say("pool of the card", cuda.cuMemPoolCreate(byref(pool), byref(Pool(1, 0, 1, 0))))
steps.say("taken of the card", take(32, pool))
"""
    )

    assert charges(told) == {
        "pool": 0,
        "taken": 0,
        "freed": 0,
        "destroyed": 0,
        "pool of the card": 0,
        "taken of the card": 32,
    }


@pytest.mark.parametrize("cuda_version", [13000, 13050], ids=["silent driver", "driver that tells"])
@pytest.mark.parametrize(
    ("place", "card"),
    [
        pytest.param("0, 0", 0, id="anywhere"),
        pytest.param("1, 1", 1, id="at best on the other card"),
        pytest.param("2, 0", 0, id="at best on the host"),
    ],
)
def test_memory_of_a_managed_pool_is_charged_wherever_it_is(steps, place, card, cuda_version):
    managed = 2
    told = steps(
        POOL
        + f"""
steps.say("pool", cuda.cuMemPoolCreate(byref(pool), byref(Pool({managed}, 0, {place}))))
steps.say("taken", take(32, pool))
steps.say("freed", cuda.cuMemFreeAsync(address, stream))
steps.say("destroyed", cuda.cuMemPoolDestroy(pool))
""",
        cuda_version=cuda_version,
    )

    charged = charges(told, card=card)
    assert (charged["pool"], charged["taken"], charged["destroyed"]) == (0, 32, 0)
    assert set(charges(told, card=1 - card).values()) == {0}


def test_a_locality_domain_of_a_card_is_that_card(steps):
    told = steps(
        HANDLE
        + POOL
        + """
domain = 6
steps.say("handle", create(handle, 32, Place(domain, 0)))
steps.say("too much", create(other, 34, Place(domain, 0)))
steps.say("of the other card", create(other, 34, Place(domain, 1)))
steps.say("of a domain that is none", create(other, 34, Place(domain, 1 | 7 << 8)))
steps.say("released", cuda.cuMemRelease(handle))
steps.say("pool", cuda.cuMemPoolCreate(byref(pool), byref(Pool(1, 0, domain, 1))))
steps.say("of the pool", take(32, pool))
""",
        cuda_version=13050,
    )

    assert told == {
        "handle": (0, 32, 0),
        "too much": (OUT_OF_MEMORY, 32, 0),
        "of the other card": (0, 32, 34),
        "of a domain that is none": (1, 32, 34),
        "released": (0, 0, 34),
        "pool": (0, 0, 34),
        "of the pool": (0, 0, 66),
    }


# --- handles ---


def test_a_range_of_memory_that_is_not_counted_and_of_some_that_is_is_released_when_it_is_unmapped(
    steps,
):
    told = steps(
        HANDLE
        + """
half, none = c_size_t(16 * MIB), c_size_t(0)
assert cuda.cuMemAddressReserve(byref(address), c_size_t(32 * MIB), none, c_ulonglong(0), c_ulonglong(0)) == 0
steps.say("of the host", create(other, 16, Place(2, 0)))
steps.say("mapped", cuda.cuMemMap(address, half, none, other, c_ulonglong(0)))
steps.say("of the card", create(handle, 16, Place(1, 0)))
second = c_ulonglong(address.value + 16 * MIB)
steps.say("mapped behind", cuda.cuMemMap(second, half, none, handle, c_ulonglong(0)))
steps.say("released", cuda.cuMemRelease(handle))
steps.say("both unmapped", cuda.cuMemUnmap(address, c_size_t(32 * MIB)))
"""
    )

    assert charges(told) == {
        "of the host": 0,
        "mapped": 0,
        "of the card": 16,
        "mapped behind": 16,
        "released": 16,
        "both unmapped": 0,
    }


def test_a_handle_is_retained_by_any_address_of_its_mapping(steps):
    told = steps(
        HANDLE
        + """
size = c_size_t(16 * MIB)
assert cuda.cuMemAddressReserve(byref(address), size, c_size_t(0), c_ulonglong(0), c_ulonglong(0)) == 0
assert create(handle, 16, Place(1, 0)) == 0
assert cuda.cuMemMap(address, size, c_size_t(0), handle, c_ulonglong(0)) == 0
inside = c_void_p(address.value + 5 * MIB + 1)
steps.say("retained", cuda.cuMemRetainAllocationHandle(byref(other), inside))
steps.say("released", cuda.cuMemRelease(handle))
steps.say("unmapped", cuda.cuMemUnmap(address, size))
steps.say("released at last", cuda.cuMemRelease(other))
"""
    )

    assert charges(told) == {
        "retained": 16,
        "released": 16,
        "unmapped": 16,
        "released at last": 0,
    }

/* How two cards are connected, and to which memory a card is near. */
#define _GNU_SOURCE
#include "session.h"

#include <string.h>

static nvmlReturn_t view_both(nvmlDevice_t a, nvmlDevice_t b, struct view *ret_a, struct view *ret_b)
{
	nvmlReturn_t result = session_view(a, ret_a);

	return result == NVML_SUCCESS ? session_view(b, ret_b) : result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
							      unsigned int *level)
{
	struct view one, other;
	nvmlReturn_t result = level ? view_both(a, b, &one, &other) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (one.card.pcie_switch >= 0 && one.card.pcie_switch == other.card.pcie_switch)
		*level = NVML_TOPOLOGY_SINGLE;
	else if (one.card.numa_node == other.card.numa_node)
		*level = NVML_TOPOLOGY_NODE;
	else
		*level = NVML_TOPOLOGY_SYSTEM;
	return NVML_SUCCESS;
}

static bool links_to(const struct card *card, const char *peer)
{
	for (uint32_t i = 0; i < card->link_count; i++)
		if (card->links[i].count > 0 && strcmp(card->links[i].peer, peer) == 0)
			return true;
	return false;
}

static bool are_linked(const struct card *a, const struct card *b)
{
	return (links_to(a, b->uuid) && links_to(b, a->uuid)) ||
	       (links_to(a, "switch") && links_to(b, "switch"));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b,
						 unsigned int capability, unsigned int *status)
{
	struct view one, other;
	nvmlReturn_t result = status ? view_both(a, b, &one, &other) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	bool works = one.card.p2p && other.card.p2p;

	if (capability == NVML_P2P_CAPS_INDEX_NVLINK)
		works = works && are_linked(&one.card, &other.card);
	*status = works ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size,
						      unsigned long *nodes, unsigned int scope)
{
	struct view view;
	unsigned int bits = 8 * sizeof *nodes;
	nvmlReturn_t result = nodes && size ? session_view(device, &view)
					    : NVML_ERROR_INVALID_ARGUMENT;

	(void)scope; /* node and socket are one here */
	if (result != NVML_SUCCESS)
		return result;
	if (view.card.numa_node < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	unsigned int node = (unsigned int)view.card.numa_node;

	if (node / bits >= size)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(nodes, 0, size * sizeof *nodes);
	nodes[node / bits] |= 1ul << (node % bits);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, int *node)
{
	struct view view;
	nvmlReturn_t result = node ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	/* The node that the card's own memory is, on machines where it is one. Not the node near it. */
	return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

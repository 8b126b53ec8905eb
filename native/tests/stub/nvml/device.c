/* Which cards there are, and what they are. */
#define _GNU_SOURCE
#include "session.h"

#include <stdio.h>
#include <string.h>

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	struct profile profile;

	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	nvmlReturn_t result = session_profile(&profile);

	if (result == NVML_SUCCESS)
		*count = profile.card_count;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

/* A handle for a card or instance, unless the card fails as a whole. */
static nvmlReturn_t give_handle(const struct card *card, const char *uuid, nvmlDevice_t *ret_device)
{
	nvmlReturn_t result = session_card_error(card);

	if (result != NVML_SUCCESS)
		return result;
	nvmlDevice_t device = session_handle(uuid);

	if (!device)
		return NVML_ERROR_MEMORY;
	*ret_device = device;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	struct profile profile;
	nvmlReturn_t result = session_profile(&profile);

	if (result != NVML_SUCCESS)
		return result;
	if (!device || index >= profile.card_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return give_handle(&profile.cards[index], profile.cards[index].uuid, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	struct profile profile;
	nvmlReturn_t result = session_profile(&profile);

	if (result != NVML_SUCCESS)
		return result;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	const struct card *card = profile_find(&profile, uuid, NULL);

	return card ? give_handle(card, uuid, device) : NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	struct profile profile;
	unsigned int domain = 0, bus, slot;
	nvmlReturn_t result = session_profile(&profile);

	if (result != NVML_SUCCESS)
		return result;
	if (!bus_id || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0; /* the domain may be left out */
		if (sscanf(bus_id, "%x:%x", &bus, &slot) != 2)
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	for (uint32_t i = 0; i < profile.card_count; i++) {
		const struct card *card = &profile.cards[i];

		if (card->pci_domain == domain && card->pci_bus == bus && card->pci_device == slot)
			return give_handle(card, card->uuid, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	struct view view;
	nvmlReturn_t result = session_view(device, &view);

	if (result != NVML_SUCCESS)
		return result;
	return session_give_text(view.is_instance ? view.instance.uuid : view.card.uuid, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	struct view view;
	char text[160];
	nvmlReturn_t result = session_view(device, &view);

	if (result != NVML_SUCCESS)
		return result;
	if (view.is_instance)
		snprintf(text, sizeof text, "%s MIG %s", view.card.name, view.instance.profile);
	else
		snprintf(text, sizeof text, "%s", view.card.name);
	return session_give_text(text, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	struct view view;
	nvmlReturn_t result = index ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*index = view.index;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	struct view view;
	nvmlReturn_t result = minor ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*minor = view.card.minor;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
							     int *minor)
{
	struct view view;
	nvmlReturn_t result = major && minor ? session_view(device, &view)
					     : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS) {
		*major = (int)view.card.cc_major;
		*minor = (int)view.card.cc_minor;
	}
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	struct view view;
	nvmlReturn_t result = mode ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*mode = 0; /* default: shared by all */
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
	struct view view;
	nvmlReturn_t result = mode ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*mode = 1;
	return result;
}

static void fill_pci(unsigned int domain, unsigned int bus, unsigned int slot, nvmlPciInfo_t *pci)
{
	memset(pci, 0, sizeof *pci);
	pci->domain = domain;
	pci->bus = bus;
	pci->device = slot;
	pci->pciDeviceId = 0x20b510de; /* some card of vendor 10de: no caller tells cards apart by it */
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff,
		 bus & 0xff, slot & 0xff);
	snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", domain, bus & 0xff, slot & 0xff);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	struct view view;
	nvmlReturn_t result = pci ? session_view(device, &view) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		fill_pci(view.card.pci_domain, view.card.pci_bus, view.card.pci_device, pci);
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

/* The link numbered `number` of the card, counting all its links one after another. */
static const struct link *find_link(const struct card *card, unsigned int number)
{
	for (uint32_t i = 0; i < card->link_count; i++) {
		if (number < card->links[i].count)
			return &card->links[i];
		number -= card->links[i].count;
	}
	return NULL;
}

static nvmlReturn_t view_link(nvmlDevice_t device, unsigned int number, struct link *ret_link)
{
	struct view view;
	nvmlReturn_t result = session_view(device, &view);

	if (result != NVML_SUCCESS)
		return result;
	if (view.card.link_count == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	if (number >= PROFILE_MAX_LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	const struct link *link = find_link(&view.card, number);

	*ret_link = link ? *link : (struct link){0};
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
						   unsigned int *is_active)
{
	struct link found;
	nvmlReturn_t result = is_active ? view_link(device, link, &found)
					: NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		*is_active = found.count > 0;
	return result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
							      unsigned int *type)
{
	struct link found;
	nvmlReturn_t result = type ? view_link(device, link, &found) : NVML_ERROR_INVALID_ARGUMENT;

	if (result != NVML_SUCCESS)
		return result;
	if (found.count == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*type = strcmp(found.peer, "switch") == 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH
						   : NVML_NVLINK_DEVICE_TYPE_GPU;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
							      nvmlPciInfo_t *pci)
{
	struct profile profile;
	struct link found;
	nvmlReturn_t result = pci ? view_link(device, link, &found) : NVML_ERROR_INVALID_ARGUMENT;

	if (result == NVML_SUCCESS)
		result = session_profile(&profile);
	if (result != NVML_SUCCESS)
		return result;
	if (found.count == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	const struct card *peer = profile_find(&profile, found.peer, NULL);

	if (peer)
		fill_pci(peer->pci_domain, peer->pci_bus, peer->pci_device, pci);
	else
		fill_pci(0, 0xc4, 0, pci); /* the switch, or a card hidden from us */
	return NVML_SUCCESS;
}

/* Texture references and objects: made and set, for clients whose code has them. Nothing reads them. */
#include "array.h"
#include "module.h"

struct CUtexref_st {
	struct object object;
};

SIM_EXPORT CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name)
{
	SIM_ENTER();
	if (!object_is(OBJECT_MODULE, module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!reference || !name)
		return CUDA_ERROR_INVALID_VALUE;
	*reference = object_new(OBJECT_TEXTURE, sizeof **reference, module->object.context);
	return *reference ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult check(CUtexref reference)
{
	return object_is(OBJECT_TEXTURE, reference) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuTexRefSetFlags(CUtexref reference, unsigned int flags)
{
	(void)flags;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetFormat(CUtexref reference, int format, int channels)
{
	(void)format, (void)channels;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetFilterMode(CUtexref reference, int mode)
{
	(void)mode;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetAddressMode(CUtexref reference, int dimension, int mode)
{
	(void)dimension, (void)mode;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetMaxAnisotropy(CUtexref reference, unsigned int most)
{
	(void)most;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetMipmapFilterMode(CUtexref reference, int mode)
{
	(void)mode;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetMipmapLevelBias(CUtexref reference, float bias)
{
	(void)bias;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetMipmapLevelClamp(CUtexref reference, float least, float most)
{
	(void)least, (void)most;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetBorderColor(CUtexref reference, float *colour)
{
	(void)colour;
	SIM_ENTER();
	return check(reference);
}

SIM_EXPORT CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned int flags)
{
	(void)flags;
	SIM_ENTER();
	CUresult cr = check(reference);

	return cr == CUDA_SUCCESS && !object_is(OBJECT_ARRAY, array) ? CUDA_ERROR_INVALID_HANDLE : cr;
}

SIM_EXPORT CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref reference, CUdeviceptr address,
					  size_t bytes)
{
	(void)address, (void)bytes;
	SIM_ENTER();
	if (offset)
		*offset = 0;
	return check(reference);
}

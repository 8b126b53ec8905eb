#include "events.h"

#include "real.h"

bool events_are_possible(void)
{
	return real.cuEventCreate && real.cuEventDestroy_v2 && real.cuEventRecord &&
	       real.cuEventQuery && real.cuEventElapsedTime && real.cuStreamIsCapturing &&
	       real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2;
}

static bool make_two_here(CUevent *ret_first, CUevent *ret_second)
{
	if (real.cuEventCreate(ret_first, 0) != CUDA_SUCCESS)
		return false;
	if (real.cuEventCreate(ret_second, 0) == CUDA_SUCCESS)
		return true;
	real.cuEventDestroy_v2(*ret_first);
	return false;
}

bool events_make_two(CUcontext context, CUevent *ret_first, CUevent *ret_second)
{
	CUcontext current = NULL;
	if (real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return false;
	const bool is_other = current != context;
	if (is_other && real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
		return false;
	const bool is_made = make_two_here(ret_first, ret_second);
	if (is_other)
		real.cuCtxPopCurrent_v2(&current);
	return is_made;
}

CUresult events_record(CUstream stream, bool is_thread_form, CUevent event)
{
	if (is_thread_form && real.cuEventRecord_ptsz)
		return real.cuEventRecord_ptsz(event, stream);
	return real.cuEventRecord(event, stream);
}

int events_relax(int mode)
{
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

bool events_is_reached(CUevent event)
{
	const int mode = events_relax(EVENTS_RELAXED);
	const bool is_reached = real.cuEventQuery(event) == CUDA_SUCCESS;
	events_relax(mode);
	return is_reached;
}

bool events_is_captured(CUstream stream, bool is_thread_form)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
		is_thread_form && real.cuStreamIsCapturing_ptsz ? real.cuStreamIsCapturing_ptsz :
								   real.cuStreamIsCapturing;
	/* An error here means that it would disturb a capture elsewhere: the driver will say so. */
	return ask && (ask(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/*
 * A definition for every name that no other file defines, and the forms for per-thread default
 * streams. They are weak: a real definition takes their place.
 *
 * A per-thread form is its ordinary form under an address of its own, as programs and hooks see it
 * in the real driver; the default stream is one for all threads here.
 */
#if defined __x86_64__
#define NOT_SUPPORTED "movl $801, %eax\n\tret"
#define JUMP "jmp "
#elif defined __aarch64__
#define NOT_SUPPORTED "mov w0, #801\n\tret"
#define JUMP "b "
#else
#error "say how to return 801 and how to jump on this processor"
#endif

#define WEAK(symbol, body) \
	__asm__(".text\n.weak " symbol "\n.type " symbol ", %function\n" symbol ":\n\t" body "\n" \
		".size " symbol ", .-" symbol "\n");

#define SIM(name, version, symbol) WEAK(#symbol, NOT_SUPPORTED)
#define SIM_THREAD(name, version, symbol, per_thread) \
	WEAK(#symbol, NOT_SUPPORTED) WEAK(#per_thread, JUMP #symbol)
#define SIM_AGAIN(name, version, symbol)
#include "symbols.def"
#undef SIM
#undef SIM_THREAD
#undef SIM_AGAIN

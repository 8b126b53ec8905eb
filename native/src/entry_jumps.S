/*
 * dlsym, dlopen and dlmopen as the program sees them: jumps into the real ones, which look at their
 * return address to tell who asks (RTLD_NEXT, RTLD_DEFAULT, whose RUNPATH and $ORIGIN, which namespace).
 * C cannot do this: what is not ours to answer has to leave stack and arguments as they came.
 *
 * ASK calls a function of entry.h with the arguments as they came; the first two are as before after it.
 */
	.macro BEGIN symbol
	.text
	.globl \symbol
	.type \symbol, %function
\symbol:
	.cfi_startproc
	LANDING
	.endm

	.macro END symbol
	.cfi_endproc
	.size \symbol, .-\symbol
	.endm

#if defined(__x86_64__)

	.macro LANDING
	endbr64
	.endm

	.macro ASK function
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call \function
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.endm

	.macro CALLER_IS_THIRD
	movq (%rsp), %rdx
	.endm

	.macro ANSWER_IS_SECOND
	movl %eax, %esi
	.endm

	.macro ANSWER_IS_THIRD
	movl %eax, %edx
	.endm

	.macro RETURN_IF_FINAL
	testq %rdx, %rdx
	jz 1f
	ret
1:
	.endm

	.macro GO_ON target
	jmp *\target(%rip)
	.endm

#elif defined(__aarch64__)

	.macro LANDING
	hint #34 /* bti c */
	.endm

	.macro ASK function
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp x0, x1, [sp, #16]
	mov x29, sp
	bl \function
	mov x9, x0
	mov x10, x1
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	.endm

	.macro CALLER_IS_THIRD
	mov x2, x30
	.endm

	.macro ANSWER_IS_SECOND
	mov w1, w9
	.endm

	.macro ANSWER_IS_THIRD
	mov w2, w9
	.endm

	.macro RETURN_IF_FINAL
	cbz x10, 1f
	mov x0, x9
	ret
1:
	.endm

	.macro GO_ON target
	adrp x16, \target
	ldr x16, [x16, #:lo12:\target]
	br x16
	.endm

#else
#error "write these macros for this architecture"
#endif

	BEGIN dlsym
	CALLER_IS_THIRD
	ASK hamid_dlsym_answer
	RETURN_IF_FINAL
	GO_ON hamid_dlsym_target
	END dlsym

	BEGIN dlopen
	ASK hamid_dlopen_mode
	ANSWER_IS_SECOND
	GO_ON hamid_dlopen_target
	END dlopen

	BEGIN dlmopen
	ASK hamid_dlmopen_mode
	ANSWER_IS_THIRD
	GO_ON hamid_dlmopen_target
	END dlmopen

	.section .note.GNU-stack, "", %progbits

/*
 * dlsym as the program sees it. C cannot do this: the real dlsym looks at its return address to
 * tell who asks (RTLD_NEXT, RTLD_DEFAULT, namespaces), so an answer that is not ours to give has to
 * be a jump that leaves stack and arguments as they came.
 */
#if defined(__x86_64__)

	.text
	.globl dlsym
	.type dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	movq 24(%rsp), %rdx
	call hamid_dlsym_answer
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	testq %rdx, %rdx
	jz 1f
	ret
1:	jmp *hamid_dlsym_target(%rip)
	.cfi_endproc
	.size dlsym, .-dlsym

#elif defined(__aarch64__)

	.text
	.globl dlsym
	.type dlsym, %function
dlsym:
	.cfi_startproc
	hint #34 /* bti c */
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp x0, x1, [sp, #16]
	mov x29, sp
	mov x2, x30
	bl hamid_dlsym_answer
	cbz x1, 1f
	ldp x29, x30, [sp], #32
	.cfi_remember_state
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
1:	.cfi_restore_state
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp x16, hamid_dlsym_target
	ldr x16, [x16, #:lo12:hamid_dlsym_target]
	br x16
	.cfi_endproc
	.size dlsym, .-dlsym

#else
#error "write dlsym for this architecture"
#endif

	.section .note.GNU-stack, "", %progbits

/*
 * dlopen and dlmopen as the program sees them: jumps into the real ones, for these look at their
 * return address too (whose RUNPATH, $ORIGIN and namespace). Only the mode may be another.
 */
#if defined(__x86_64__)

	.text
	.globl dlopen
	.type dlopen, @function
dlopen:
	.cfi_startproc
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	call hamid_dlopen_mode
	popq %rdi
	.cfi_adjust_cfa_offset -8
	movl %eax, %esi
	jmp *hamid_dlopen_target(%rip)
	.cfi_endproc
	.size dlopen, .-dlopen

	.globl dlmopen
	.type dlmopen, @function
dlmopen:
	.cfi_startproc
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call hamid_dlmopen_mode
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	movl %eax, %edx
	jmp *hamid_dlmopen_target(%rip)
	.cfi_endproc
	.size dlmopen, .-dlmopen

#elif defined(__aarch64__)

	.text
	.globl dlopen
	.type dlopen, %function
dlopen:
	.cfi_startproc
	hint #34 /* bti c */
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	str x0, [sp, #16]
	mov x29, sp
	bl hamid_dlopen_mode
	mov w1, w0
	ldr x0, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp x16, hamid_dlopen_target
	ldr x16, [x16, #:lo12:hamid_dlopen_target]
	br x16
	.cfi_endproc
	.size dlopen, .-dlopen

	.globl dlmopen
	.type dlmopen, %function
dlmopen:
	.cfi_startproc
	hint #34 /* bti c */
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp x0, x1, [sp, #16]
	mov x29, sp
	bl hamid_dlmopen_mode
	mov w2, w0
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp x16, hamid_dlmopen_target
	ldr x16, [x16, #:lo12:hamid_dlmopen_target]
	br x16
	.cfi_endproc
	.size dlmopen, .-dlmopen

#else
#error "write dlopen for this architecture"
#endif

	.section .note.GNU-stack, "", %progbits

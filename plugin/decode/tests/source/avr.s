/* SPDX-License-Identifier: MIT OR Apache-2.0 */
; Each instruction of AVRe+, and those of AVRxm that avr6's assembler takes.
start:
	nop
	movw r24, r30
	muls r16, r31
	mulsu r16, r23
	fmul r17, r18
	fmuls r17, r18
	fmulsu r17, r18
	cpc r1, r31
	sbc r0, r16
	add r15, r16
	lsl r4
	cpse r3, r30
	cp r2, r29
	sub r31, r0
	adc r5, r6
	rol r7
	and r8, r9
	tst r8
	eor r10, r11
	clr r10
	or r12, r13
	mov r14, r15
	cpi r16, 255
	sbci r17, 1
	subi r18, 2
	ori r19, 3
	sbr r19, 3
	andi r20, 4
	ldi r21, 5
	ser r22
	ld r0, X
	ld r1, X+
	ld r2, -X
	ld r3, Y
	ld r4, Y+
	ld r5, -Y
	ldd r6, Y+63
	ld r7, Z
	ld r8, Z+
	ld r9, -Z
	ldd r10, Z+1
	st X, r0
	st X+, r1
	st -X, r2
	st Y, r3
	st Y+, r4
	st -Y, r5
	std Y+63, r6
	st Z, r7
	st Z+, r8
	st -Z, r9
	std Z+1, r10
	lds r24, 0x100
	sts 0x100, r24
	lpm
	lpm r0, Z
	lpm r29, Z+
	elpm
	elpm r0, Z
	elpm r29, Z+
	push r28
	pop r29
	com r0
	neg r1
	swap r2
	inc r3
	asr r4
	lsr r5
	ror r6
	dec r7
	sec
	sez
	sen
	sev
	ses
	seh
	set
	sei
	clc
	clz
	cln
	clv
	cls
	clh
	clt
	cli
	ijmp
	eijmp
	icall
	eicall
	ret
	reti
	sleep
	break
	wdr
	spm
	adiw r24, 63
	sbiw r30, 1
	cbi 0x1f, 7
	sbic 0x1f, 7
	sbi 0, 0
	sbis 0, 0
	mul r0, r31
	in r0, 0x3f
	out 0x3f, r0
	out 0x3e, r29
	out 0x3d, r28
	rjmp start
	rjmp .+2
	rcall .+0
	rcall start
	jmp start
	jmp 0x3fffe
	call start
	call 0x3fffe
	breq .-2
	brne .+40
	brcs .-100
	brcc .+0
	brlt .+2
	brge .+2
	brmi .+2
	brpl .+2
	brvs .+2
	brvc .+2
	brhs .+2
	brhc .+2
	brts .+2
	brtc .+2
	brie .+2
	brid .+2
	bld r0, 7
	bst r31, 0
	sbrc r0, 7
	nop
	sbrs r31, 0
	nop

// The context switch for AArch64, AAPCS64. README.md draws the stacks and tells why it is like this.
//
// Convention of `switch` and `leave`, which the inline assembly in mod.rs follows (it jumps here, it
// does not call):
//
//      x0    the message; passes through untouched
//      x1    the context to continue
//      x2    where to store the caller's own context (`switch` only)
//      x30   where the caller wants to be continued: a `bti j` right behind its jump
//
// A context is a stack pointer (16-byte aligned), and this is what lies there:
//
//      +96   the caller's stack pointer points here; it is the CFA
//      +80   x27 x28
//      +64   x25 x26
//      +48   x23 x24
//      +32   x21 x22
//      +16   x19 x20
//       +0   x29 x30 (where to continue)
//
// d8 to d15 are not here: the function that switches saves them, as mod.rs declares them clobbered.

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(name) PASTE(CYGNET_PREFIX, name)

// As hints, which old assemblers take and old processors ignore.
#define BTI_C   hint #34
#define BTI_J   hint #36

        .macro  function name
        .globl  \name
        .hidden \name
        .type   \name, %function
        .balign 32
\name:
        .cfi_startproc
        .endm

        .macro  end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        // The unwinding rules of a complete frame.
        .macro  rules
        .cfi_def_cfa sp, 96
        .cfi_offset x29, -96
        .cfi_offset x30, -88
        .cfi_offset x19, -80
        .cfi_offset x20, -72
        .cfi_offset x21, -64
        .cfi_offset x22, -56
        .cfi_offset x23, -48
        .cfi_offset x24, -40
        .cfi_offset x25, -32
        .cfi_offset x26, -24
        .cfi_offset x27, -16
        .cfi_offset x28, -8
        .endm

        // Takes a context off its stack and continues it. A loaded register has its value in the frame
        // as well until the stack pointer moves, so the rules stay right up to the last load, which
        // does both at once.
        .macro  resume
        ldp     x19, x20, [sp, #16]
        ldp     x21, x22, [sp, #32]
        ldp     x23, x24, [sp, #48]
        ldp     x25, x26, [sp, #64]
        ldp     x27, x28, [sp, #80]
        ldp     x29, x30, [sp], #96
        .cfi_def_cfa_offset 0
        .cfi_restore x19
        .cfi_restore x20
        .cfi_restore x21
        .cfi_restore x22
        .cfi_restore x23
        .cfi_restore x24
        .cfi_restore x25
        .cfi_restore x26
        .cfi_restore x27
        .cfi_restore x28
        .cfi_restore x29
        .cfi_restore x30
        // Not `ret`: the processor would predict a return to whoever was called last, on a stack that
        // is no longer the one in use.
        br      x30
        .endm

        .text

        function NAME(switch)
        BTI_C
        stp     x29, x30, [sp, #-96]!
        .cfi_def_cfa_offset 96
        .cfi_offset x29, -96
        .cfi_offset x30, -88
        // Until they are overwritten below the hinge, the others are also still in their registers.
        stp     x19, x20, [sp, #16]
        stp     x21, x22, [sp, #32]
        stp     x23, x24, [sp, #48]
        stp     x25, x26, [sp, #64]
        stp     x27, x28, [sp, #80]
        rules
        mov     x9, sp
        str     x9, [x2]
        // The hinge. Both stacks have the same layout below their stack pointers, so the rules that
        // hold here for the caller hold from the next instruction on for the context continued.
        mov     sp, x1
        resume
        end     NAME(switch)

        function NAME(leave)
        BTI_C
        mov     sp, x1
        // From here on it is the frame of the other context, which nobody stored in this routine.
        rules
        resume
        end     NAME(leave)

        // The root of a coroutine, continued by its first switch with the registers that `prepare` laid:
        //
        //      x19   data
        //      x20   entry(data, message)
        //      x21   protector()
        //      x29   0: ends a walk along frame pointers
        .globl  NAME(trampoline)
        .hidden NAME(trampoline)
        .type   NAME(trampoline), %function
        .balign 32
        .cfi_startproc
        // There is no caller: unwinding ends here, at each instruction.
        .cfi_def_cfa sp, 16
        .cfi_undefined x30
        // Never executed. Unwinders look a return address up by the byte before it, and until the
        // coroutine has started, the address below is one.
        nop
NAME(trampoline):
        BTI_J
        mov     x1, x0
        mov     x0, x19
        blr     x20
        // The entry returned, though it must not.
        blr     x21
        brk     #1
        end     NAME(trampoline)

        // The three words of each thread.
        .section .tbss, "awT", %nobits
        .globl  NAME(thread_words)
        .hidden NAME(thread_words)
        .type   NAME(thread_words), %object
        .balign 8
NAME(thread_words):
        .zero   24
        .size   NAME(thread_words), 24

        // These routines may run on guarded pages (every target of an indirect jump is a landing pad);
        // return addresses are not signed and there is no guarded control stack: BTI (1) alone.
        .section .note.gnu.property, "a", %note
        .balign 8
        .long   4, 16, 5                // sizes of name and description, NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0     // GNU_PROPERTY_AARCH64_FEATURE_1_AND, its size, BTI, padding

        .section .note.GNU-stack, "", %progbits

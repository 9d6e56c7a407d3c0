// SPDX-License-Identifier: MIT OR Apache-2.0
//! Known allocation functions of C libraries, kernels and language runtimes.

use super::rule::Kind;
use crate::image::symbols::demangle;

/// Functions by their names in the symbol table, with the places of their arguments; see [`super::rule`].
const KNOWN: &[(Kind, &[&str], &str)] = &[
    // ISO C, POSIX, newlib and picolibc.
    (Kind::Alloc, &["malloc", "valloc", "pvalloc", "__libc_malloc"], "(size=arg0)"),
    (Kind::Alloc, &["calloc", "__libc_calloc"], "(count=arg0, size=arg1)"),
    (Kind::Alloc, &["realloc", "__libc_realloc"], "(old=arg0, size=arg1)"),
    (Kind::Alloc, &["reallocarray"], "(old=arg0, count=arg1, size=arg2)"),
    (Kind::Alloc, &["memalign", "aligned_alloc"], "(align=arg0, size=arg1)"),
    (Kind::Alloc, &["posix_memalign"], "(align=arg1, size=arg2) -> *arg0"),
    (Kind::Free, &["free", "cfree", "__libc_free"], "(arg0)"),
    // newlib's reentrant functions; their first argument is the library's state.
    (Kind::Alloc, &["_malloc_r", "_valloc_r", "_pvalloc_r"], "(size=arg1)"),
    (Kind::Alloc, &["_calloc_r"], "(count=arg1, size=arg2)"),
    (Kind::Alloc, &["_realloc_r"], "(old=arg1, size=arg2)"),
    (Kind::Alloc, &["_memalign_r"], "(align=arg1, size=arg2)"),
    (Kind::Free, &["_free_r", "_cfree_r"], "(arg1)"),
    // FreeRTOS's heap_1 to heap_5.
    (Kind::Alloc, &["pvPortMalloc"], "(size=arg0)"),
    (Kind::Alloc, &["pvPortCalloc"], "(count=arg0, size=arg1)"),
    (Kind::Free, &["vPortFree"], "(arg0)"),
    // Zephyr's.
    (Kind::Alloc, &["k_malloc", "z_thread_malloc"], "(size=arg0)"),
    (Kind::Alloc, &["k_calloc"], "(count=arg0, size=arg1)"),
    (Kind::Alloc, &["k_realloc"], "(old=arg0, size=arg1)"),
    (Kind::Alloc, &["k_aligned_alloc", "z_thread_aligned_alloc"], "(align=arg0, size=arg1)"),
    (Kind::Free, &["k_free"], "(arg0)"),
    (Kind::Alloc, &["k_heap_alloc", "z_impl_k_heap_alloc", "sys_heap_alloc"], "(size=arg1)"),
    (Kind::Alloc, &["k_heap_calloc", "z_impl_k_heap_calloc"], "(count=arg1, size=arg2)"),
    (Kind::Alloc, &["k_heap_realloc", "z_impl_k_heap_realloc", "sys_heap_realloc"], "(old=arg1, size=arg2)"),
    (
        Kind::Alloc,
        &["k_heap_aligned_alloc", "z_impl_k_heap_aligned_alloc", "sys_heap_aligned_alloc", "sys_heap_noalign_alloc"],
        "(align=arg1, size=arg2)",
    ),
    (Kind::Alloc, &["sys_heap_aligned_realloc"], "(old=arg1, align=arg2, size=arg3)"),
    (Kind::Free, &["k_heap_free", "z_impl_k_heap_free", "sys_heap_free"], "(arg1)"),
    // ThreadX's byte pools and block pools, with and without checks of their arguments. A block pool has the size of its
    // blocks after seven words (tx_api.h, TX_BLOCK_POOL_STRUCT).
    (Kind::Alloc, &["_tx_byte_allocate", "_txe_byte_allocate"], "(size=arg2) -> *arg1"),
    (Kind::Free, &["_tx_byte_release", "_txe_byte_release"], "(arg0)"),
    (Kind::Alloc, &["_tx_block_allocate", "_txe_block_allocate"], "(size=*arg0+28) -> *arg1"),
    (Kind::Free, &["_tx_block_release", "_txe_block_release"], "(arg0)"),
    // NuttX's, for a heap that is named or for the kernel's.
    (Kind::Alloc, &["mm_malloc", "mm_zalloc"], "(size=arg1)"),
    (Kind::Alloc, &["kmm_malloc", "kmm_zalloc", "zalloc"], "(size=arg0)"),
    (Kind::Alloc, &["mm_calloc"], "(count=arg1, size=arg2)"),
    (Kind::Alloc, &["kmm_calloc"], "(count=arg0, size=arg1)"),
    (Kind::Alloc, &["mm_realloc"], "(old=arg1, size=arg2)"),
    (Kind::Alloc, &["kmm_realloc"], "(old=arg0, size=arg1)"),
    (Kind::Alloc, &["mm_memalign"], "(align=arg1, size=arg2)"),
    (Kind::Alloc, &["kmm_memalign"], "(align=arg0, size=arg1)"),
    (Kind::Free, &["mm_free"], "(arg1)"),
    (Kind::Free, &["kmm_free"], "(arg0)"),
    // TLSF's, which RIOT and NuttX may use: https://github.com/mattconte/tlsf
    (Kind::Alloc, &["tlsf_malloc"], "(size=arg1)"),
    (Kind::Alloc, &["tlsf_realloc"], "(old=arg1, size=arg2)"),
    (Kind::Alloc, &["tlsf_memalign"], "(align=arg1, size=arg2)"),
    (Kind::Free, &["tlsf_free"], "(arg1)"),
    // RIOT's arrays of elements, which have the elements' size after one pointer (memarray.h).
    (Kind::Alloc, &["memarray_alloc", "memarray_calloc"], "(size=*arg0+4)"),
    (Kind::Free, &["memarray_free"], "(arg1)"),
    // Rust's, as the compiler calls them: https://doc.rust-lang.org/std/alloc/trait.GlobalAlloc.html
    (Kind::Alloc, &["__rust_alloc", "__rust_alloc_zeroed"], "(size=arg0, align=arg1)"),
    (Kind::Alloc, &["__rust_realloc"], "(old=arg0, align=arg2, size=arg3)"),
    (Kind::Free, &["__rust_dealloc"], "(arg0)"),
    // Names of the same functions with a #[global_allocator], and without one.
    (
        Kind::Alloc,
        &["__rg_alloc", "__rg_alloc_zeroed", "__rdl_alloc", "__rdl_alloc_zeroed"],
        "(size=arg0, align=arg1)",
    ),
    (Kind::Alloc, &["__rg_realloc", "__rdl_realloc"], "(old=arg0, align=arg2, size=arg3)"),
    (Kind::Free, &["__rg_dealloc", "__rdl_dealloc"], "(arg0)"),
];

/// Kind of a function, and the places of its arguments, by its name in the symbol table.
pub(super) fn known(linkage_name: &str) -> Option<(Kind, &'static str)> {
    if linkage_name.starts_with("_Z") {
        return operator(linkage_name);
    }
    // Since Rust 1.86 these names are mangled, in a crate `__rustc`.
    let demangled = linkage_name.starts_with("_R").then(|| demangle(linkage_name));
    let of_rustc = demangled.as_deref().filter(|name| name.starts_with("__rustc"));
    let name = of_rustc.and_then(|name| name.rsplit("::").next()).unwrap_or(linkage_name);
    let row = KNOWN.iter().find(|(_, names, _)| names.contains(&name))?;
    Some((row.0, row.2))
}

/// Whether a known function's places are those of 32-bit processors: ports of ThreadX for others lay out a block pool in
/// several ways, and RIOT's pointers have 32 bits.
pub(super) fn is_for_32_bits(linkage_name: &str) -> bool {
    linkage_name.starts_with("_tx") && linkage_name.contains("_block_") || linkage_name.starts_with("memarray_")
}

/// Recognises C++'s `operator new` and `operator delete`, mangled: Itanium C++ ABI, 5.1.3. Placement forms are not
/// included.
fn operator(linkage_name: &str) -> Option<(Kind, &'static str)> {
    const ALIGNED: &str = "St11align_val_t";
    const NOTHROW: &str = "RKSt9nothrow_t";
    let strip = |names: [&str; 2]| names.iter().find_map(|name| linkage_name.strip_prefix(name));
    if let Some(rest) = strip(["_Znw", "_Zna"]) {
        let rest = rest.strip_prefix(['j', 'm', 'y'])?;
        return match rest.strip_suffix(NOTHROW).unwrap_or(rest) {
            "" => Some((Kind::Alloc, "(size=arg0)")),
            ALIGNED => Some((Kind::Alloc, "(size=arg0, align=arg1)")),
            _ => None,
        };
    }
    let rest = strip(["_ZdlPv", "_ZdaPv"])?;
    let rest = rest.strip_prefix(['j', 'm', 'y']).unwrap_or(rest);
    let rest = rest.strip_prefix(ALIGNED).unwrap_or(rest);
    matches!(rest, "" | NOTHROW).then_some((Kind::Free, "(arg0)"))
}

#[cfg(test)]
mod tests {
    use decode::Isa;

    use super::super::rule::Rule;
    use super::*;

    #[test]
    fn every_rule_can_be_read_for_every_processor_and_no_name_comes_twice() {
        let mut seen = Vec::new();
        for (kind, names, arguments) in KNOWN {
            for name in *names {
                let rule = Rule::parse(*kind, &format!("{name}{arguments}")).unwrap();
                for isa in [Isa::ThumbV6m, Isa::Riscv32] {
                    rule.allocator(0, isa).unwrap();
                }
                assert!(!seen.contains(name), "{name}");
                seen.push(name);
            }
        }
    }

    #[test]
    fn operators_and_rusts_functions_are_known_by_their_mangled_names() {
        for name in ["_Znwj", "_Znam", "_Znwy", "_ZnwjRKSt9nothrow_t"] {
            assert_eq!(known(name), Some((Kind::Alloc, "(size=arg0)")), "{name}");
        }
        for name in ["_ZnwmSt11align_val_t", "_ZnajSt11align_val_tRKSt9nothrow_t", "__rust_alloc", "__rg_alloc"] {
            assert_eq!(known(name), Some((Kind::Alloc, "(size=arg0, align=arg1)")), "{name}");
        }
        let mangled = "_RNvCs4fqI2P2rA04_7___rustc12___rust_alloc";
        assert_eq!(known(mangled), Some((Kind::Alloc, "(size=arg0, align=arg1)")));
        for name in ["_ZdlPv", "_ZdaPv", "_ZdlPvj", "_ZdaPvmSt11align_val_t", "_ZdlPvRKSt9nothrow_t", "__rdl_dealloc"]
        {
            assert_eq!(known(name), Some((Kind::Free, "(arg0)")), "{name}");
        }
        // Placement new and delete, and namesakes.
        for name in ["_ZnwjPv", "_ZnwmPv", "_ZdlPvS_", "_ZN4Pool6mallocEj", "my_malloc", "mallocs", "_Znwi"] {
            assert_eq!(known(name), None, "{name}");
        }
    }
}

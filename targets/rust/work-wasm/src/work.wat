;; Primes by a sieve in memory, numbers by recursion, and calls through a table: the sum of all.
(module
  (memory 1)
  (table funcref (elem $add $xor $rotate))
  (type $two (func (param i32 i32) (result i32)))
  (func $add (type $two) (i32.add (local.get 0) (local.get 1)))
  (func $xor (type $two) (i32.xor (local.get 0) (i32.mul (local.get 1) (i32.const 2654435761))))
  (func $rotate (type $two) (i32.rotl (local.get 0) (i32.and (local.get 1) (i32.const 31))))
  (func $fib (param $n i32) (result i32)
    (if (result i32) (i32.lt_s (local.get $n) (i32.const 2))
      (then (local.get $n))
      (else (i32.add (call $fib (i32.sub (local.get $n) (i32.const 1)))
                     (call $fib (i32.sub (local.get $n) (i32.const 2)))))))
  (func $sieve (param $limit i32) (result i32)
    (local $i i32) (local $j i32) (local $count i32)
    (memory.fill (i32.const 0) (i32.const 0) (local.get $limit))
    (local.set $i (i32.const 2))
    (loop $next
      (if (i32.eqz (i32.load8_u (local.get $i)))
        (then
          (local.set $count (i32.add (local.get $count) (i32.const 1)))
          (local.set $j (i32.mul (local.get $i) (local.get $i)))
          (block $done
            (loop $strike
              (br_if $done (i32.ge_u (local.get $j) (local.get $limit)))
              (i32.store8 (local.get $j) (i32.const 1))
              (local.set $j (i32.add (local.get $j) (local.get $i)))
              (br $strike)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 250))))
    (local.get $count))
  (func $mix (param $rounds i32) (result i32)
    (local $i i32) (local $sum i32)
    (loop $next
      (local.set $sum (call_indirect (type $two) (local.get $sum) (local.get $i)
                                     (i32.rem_u (local.get $i) (i32.const 3))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $rounds))))
    (local.get $sum))
  (func (export "work") (param $rounds i32) (result i32)
    (local $i i32) (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (call $fib (i32.const 17))))
      (local.set $sum (i32.add (local.get $sum) (call $sieve (i32.const 60000))))
      (local.set $sum (i32.add (local.get $sum) (call $mix (i32.const 20000))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $rounds))))
    (local.get $sum)))
;; SPDX-License-Identifier: MIT OR Apache-2.0

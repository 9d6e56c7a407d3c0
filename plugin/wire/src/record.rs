// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as tables: the fields of a record, or the variants of one, in the order in which they are written.
//!
//! [`record!`] makes three things from such a table: the type itself, its writer and its reader. A field is written
//! in the way of its type ([`Record`]). If that would be long, or depends on an earlier field, the table names a
//! [`Codec`]. Calls are static and inlined: the code is as fast as if written by hand, and allocates nothing but room
//! in `out`.

use std::borrow::Borrow;
use std::ops::Range;

use crate::Malformed;
use crate::varint::{self, Reader};

/// A value with a single encoding.
pub(crate) trait Record: Sized {
    /// Appends the value to `out`.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads what [`Record::put`] wrote.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A way to write values of a type.
pub(crate) trait Codec<T> {
    /// Appends the value to `out`.
    fn put(&self, value: &T, out: &mut Vec<u8>);
    /// Reads what [`Codec::put`] wrote.
    fn read(&self, reader: &mut Reader<'_>) -> Result<T, Malformed>;
}

/// Makes a type, its writer and its reader from the table of its fields or variants.
///
/// A field is `name: type` or `name: type = codec`; the codec may use the fields above it. A variant is `code = Name
/// { fields }`, `code = Name(name: type)` or `code = Name`; its code, a byte, comes first. A type with `given` is a
/// part of a stream's item: `put_fields` and `read_fields` leave the variant's code to the stream.
macro_rules! record {
    (@codec) => { $crate::record::Plain };
    (@codec $codec:expr) => { $codec };

    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$about:meta])* $field:ident: $type:ty $(= $codec:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $name { $($(#[$about])* pub $field: $type,)* }

        impl $crate::record::Record for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($crate::record::Codec::put(&$crate::record::record!(@codec $($codec)?), $field, out);)*
            }

            #[inline]
            fn read(reader: &mut $crate::varint::Reader<'_>) -> Result<$name, $crate::Malformed> {
                $(
                    reader.what = concat!(stringify!($name), "'s ", stringify!($field));
                    let $field: $type = $crate::record::Codec::read(&$crate::record::record!(@codec $($codec)?), reader)?;
                )*
                Ok($name { $($field),* })
            }
        }
    };

    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($variants:tt)* }) => {
        $crate::record::record! { $(#[$meta])* $vis enum $name given _given: () { $($variants)* } }

        impl $crate::record::Record for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.push(self.code());
                self.put_fields((), out);
            }

            #[inline]
            fn read(reader: &mut $crate::varint::Reader<'_>) -> Result<$name, $crate::Malformed> {
                let code = reader.byte()?;
                $name::read_fields(code, (), reader)
            }
        }
    };

    ($(#[$meta:meta])* $vis:vis enum $name:ident given $given:ident: $Given:ty {
        $($(#[$about:meta])* $code:literal = $variant:ident
            $({ $($(#[$field_about:meta])* $field:ident: $type:ty $(= $codec:expr)?,)* })?
            $(( $($item:ident: $item_type:ty $(= $item_codec:expr)?),+ ))?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$about])* $variant $({ $($(#[$field_about])* $field: $type,)* })? $(( $($item_type),+ ))?,)*
        }

        impl $name {
            /// The byte that stands for the variant.
            #[inline]
            pub(crate) fn code(&self) -> u8 {
                match self {
                    $($name::$variant { .. } => $code,)*
                }
            }

            #[inline]
            pub(crate) fn put_fields(&self, $given: $Given, out: &mut Vec<u8>) {
                let _ = (&$given, &out);
                match self {
                    $($name::$variant $({ $($field),* })? $(( $($item),+ ))? => {
                        $($($crate::record::Codec::put(&$crate::record::record!(@codec $($codec)?), $field, out);)*)?
                        $($($crate::record::Codec::put(&$crate::record::record!(@codec $($item_codec)?), $item, out);)+)?
                    })*
                }
            }

            #[inline]
            pub(crate) fn read_fields(
                code: u8,
                $given: $Given,
                reader: &mut $crate::varint::Reader<'_>,
            ) -> Result<$name, $crate::Malformed> {
                let _ = &$given;
                match code {
                    $($code => {
                        $($(
                            reader.what = concat!(stringify!($variant), "'s ", stringify!($field));
                            let $field: $type =
                                $crate::record::Codec::read(&$crate::record::record!(@codec $($codec)?), reader)?;
                        )*)?
                        $($(
                            reader.what = concat!(stringify!($variant), "'s ", stringify!($item));
                            let $item: $item_type =
                                $crate::record::Codec::read(&$crate::record::record!(@codec $($item_codec)?), reader)?;
                        )+)?
                        Ok($name::$variant $({ $($field),* })? $(( $($item),+ ))?)
                    })*
                    _ => Err($crate::Malformed { what: stringify!($name), offset: reader.offset.saturating_sub(1) }),
                }
            }
        }
    };
}
pub(crate) use record;

/// Encodes a record by itself.
pub(crate) fn bytes(record: &impl Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.put(&mut out);
    out
}

/// Reads the rest of `reader` as one record.
pub(crate) fn rest<T: Record>(reader: &mut Reader<'_>) -> Result<T, Malformed> {
    let what = reader.what;
    let record = T::read(reader)?;
    if reader.is_empty() { Ok(record) } else { Err(Malformed { what, offset: reader.offset }) }
}

impl Record for u8 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
        reader.byte()
    }
}

impl Record for bool {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
        let malformed = reader.malformed();
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed),
        }
    }
}

impl Record for u32 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, (*self).into());
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
        let malformed = reader.malformed();
        u32::try_from(reader.varint()?).map_err(|_| malformed)
    }
}

impl Record for u64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, *self);
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        reader.varint()
    }
}

/// Encoded so that small numbers of both signs are short.
impl Record for i64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        varint::put_delta(out, 0, *self as u64);
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<i64, Malformed> {
        Ok(reader.delta(0)? as i64)
    }
}

impl Record for String {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.len() as u64);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<String, Malformed> {
        let malformed = reader.malformed();
        let length = reader.varint()?;
        let text = std::str::from_utf8(reader.bytes(length)?);
        text.map(str::to_owned).map_err(|_| malformed)
    }
}

/// Encoded as start and length.
impl Record for Range<u64> {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.end.wrapping_sub(self.start).put(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Range<u64>, Malformed> {
        let malformed = reader.malformed();
        let start = reader.varint()?;
        let end = start.checked_add(reader.varint()?).ok_or(malformed)?;
        Ok(start..end)
    }
}

impl<T: Record> Record for Option<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        Optional(Plain).put(self, out);
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
        Optional(Plain).read(reader)
    }
}

impl<T: Record> Record for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }

    /// Each item takes at least a byte, so that a damaged length ends at the end of the file.
    fn read(reader: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
        let count = reader.varint()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::read(reader)?);
        }
        Ok(items)
    }
}

impl<T: Record> Record for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Box<T>, Malformed> {
        T::read(reader).map(Box::new)
    }
}

impl<T: Record, U: Record> Record for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<(T, U), Malformed> {
        Ok((T::read(reader)?, U::read(reader)?))
    }
}

impl<T: Record + Copy + Default, const N: usize> Record for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }

    fn read(reader: &mut Reader<'_>) -> Result<[T; N], Malformed> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::read(reader)?;
        }
        Ok(items)
    }
}

/// Codec of a type's own encoding.
pub(crate) struct Plain;

impl<T: Record> Codec<T> for Plain {
    #[inline]
    fn put(&self, value: &T, out: &mut Vec<u8>) {
        value.put(out);
    }

    #[inline]
    fn read(&self, reader: &mut Reader<'_>) -> Result<T, Malformed> {
        T::read(reader)
    }
}

/// Codec of an optional value: a byte 1 and the value, or a byte 0.
pub(crate) struct Optional<C>(pub(crate) C);

impl<T, C: Codec<T>> Codec<Option<T>> for Optional<C> {
    #[inline]
    fn put(&self, value: &Option<T>, out: &mut Vec<u8>) {
        value.is_some().put(out);
        if let Some(value) = value {
            self.0.put(value, out);
        }
    }

    #[inline]
    fn read(&self, reader: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
        if bool::read(reader)? { self.0.read(reader).map(Some) } else { Ok(None) }
    }
}

/// Codec of a number as its difference from another, see [`since`].
pub(crate) struct Since(u64);

/// Codec of a number as its difference from another; small differences of both signs are short.
#[inline]
pub(crate) fn since(from: impl Borrow<u64>) -> Since {
    Since(*from.borrow())
}

impl Codec<u64> for Since {
    #[inline]
    fn put(&self, value: &u64, out: &mut Vec<u8>) {
        varint::put_delta(out, self.0, *value);
    }

    #[inline]
    fn read(&self, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        reader.delta(self.0)
    }
}

/// Codec of a number whose highest bit is a mark: the number is rotated, so that it stays short.
pub(crate) struct Marked;

impl Codec<u64> for Marked {
    #[inline]
    fn put(&self, value: &u64, out: &mut Vec<u8>) {
        varint::put(out, value.rotate_left(1));
    }

    #[inline]
    fn read(&self, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        Ok(reader.varint()?.rotate_right(1))
    }
}

/// Codec of a number up to a bound, which the reader checks.
pub(crate) struct AtMost(pub(crate) u64);

impl Codec<u64> for AtMost {
    fn put(&self, value: &u64, out: &mut Vec<u8>) {
        varint::put(out, *value);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<u64, Malformed> {
        let malformed = reader.malformed();
        Some(reader.varint()?).filter(|&value| value <= self.0).ok_or(malformed)
    }
}

/// Codec of bytes as a whole: their length, then the bytes.
pub(crate) struct Bytes;

impl Codec<Vec<u8>> for Bytes {
    fn put(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
        varint::put(out, value.len() as u64);
        out.extend_from_slice(value);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        let length = reader.varint()?;
        Ok(reader.bytes(length)?.to_vec())
    }
}

//! Macros that declare the types of messages once: fields in the order of the wire.

/// Declares structs and makes them packable. The lifetime in front is that of the bytes read.
macro_rules! structs {
    ($life:lifetime; $(
        $(#[$meta:meta])*
        $name:ident $(<$own:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $name $(<$own>)? {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            impl $(<$own>)? $crate::mooncake::Shape for $name $(<$own>)? {
                const LITERAL: $crate::mooncake::Literal = $crate::mooncake::Literal::of_struct(&[
                    $(<$type as $crate::mooncake::Shape>::LITERAL,)*
                ]);
                const BYTES_MIN: usize = 0 $(+ <$type as $crate::mooncake::Shape>::BYTES_MIN)*;
            }

            $crate::mooncake::declare::packing! {
                $life; $name $(<$own>)? { $($field: $type,)* }
            }
        )*
    };
}

/// Writes and reads the fields of a struct, one after the other, and names the one at fault.
macro_rules! packing {
    ($life:lifetime; $name:ident $(<$own:lifetime>)? { $($field:ident: $type:ty,)* }) => {
        impl $(<$own>)? $crate::mooncake::Pack for $name $(<$own>)? {
            #[allow(unused_variables, reason = "a request may have no parameter")]
            fn pack(&self, out: &mut $crate::mooncake::Writer<'_>) {
                $($crate::mooncake::Pack::pack(&self.$field, out);)*
            }
        }

        impl<$life> $crate::mooncake::Unpack<$life> for $name $(<$own>)? {
            #[allow(unused_variables, reason = "a request may have no parameter")]
            fn unpack(
                input: &mut $crate::mooncake::Reader<$life>,
            ) -> Result<Self, $crate::mooncake::Fault> {
                Ok($name {
                    $($field: <$type as $crate::mooncake::Unpack<$life>>::unpack(input)
                        .map_err(|fault| fault.in_field(stringify!($field)))?,)*
                })
            }
        }
    };
}

/// Declares numbers that have names. A number without a name is kept as it is: it comes from a peer
/// of another release, and is for the one who reads it to judge.
macro_rules! named_numbers {
    ($(
        $(#[$meta:meta])*
        $type:ident: $number:ty {
            $($(#[$name_meta:meta])* $name:ident = $value:literal,)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $type(pub $number);

            impl $type {
                $(
                    $(#[$name_meta])*
                    pub const $name: $type = $type($value);
                )*

                /// Every number that has a name.
                pub const NAMED: &'static [$type] = &[$($type::$name),*];

                /// The name, if the number has one.
                pub const fn name(self) -> Option<&'static str> {
                    match self.0 {
                        $($value => Some(stringify!($name)),)*
                        _ => None,
                    }
                }
            }

            impl std::fmt::Display for $type {
                fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    match self.name() {
                        Some(name) => out.write_str(name),
                        None => write!(out, concat!(stringify!($type), "({})"), self.0),
                    }
                }
            }

            impl std::fmt::Debug for $type {
                fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    std::fmt::Display::fmt(self, out)
                }
            }

            impl $crate::mooncake::Shape for $type {
                const LITERAL: $crate::mooncake::Literal =
                    <$number as $crate::mooncake::Shape>::LITERAL;
                const BYTES_MIN: usize = <$number as $crate::mooncake::Shape>::BYTES_MIN;
            }

            impl $crate::mooncake::Pack for $type {
                fn pack(&self, out: &mut $crate::mooncake::Writer<'_>) {
                    $crate::mooncake::Pack::pack(&self.0, out);
                }
            }

            impl<'a> $crate::mooncake::Unpack<'a> for $type {
                fn unpack(
                    input: &mut $crate::mooncake::Reader<'a>,
                ) -> Result<$type, $crate::mooncake::Fault> {
                    <$number as $crate::mooncake::Unpack<'a>>::unpack(input).map($type)
                }
            }
        )*
    };
}

pub(super) use {named_numbers, packing, structs};

//! The macro behind the table of functions.

/// The name of a function on the wire: the one of its variant unless another is given.
macro_rules! wire_name {
    ($variant:ident) => {
        stringify!($variant)
    };
    ($variant:ident $name:literal) => {
        $name
    };
}

/// Declares each function once: its request, its reply and its name. Two forms of one function are
/// two entries with one name.
macro_rules! functions {
    ($life:lifetime, $reply_life:lifetime; $(
        $(#[$meta:meta])*
        $variant:ident $(<$own:lifetime>)? $(= $wire:literal)?
        ($($field:ident: $type:ty),* $(,)?) -> $reply:ty;
    )*) => {
        /// A function of the master, in one form of its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $($(#[$meta])* $variant,)*
        }

        impl Function {
            /// Every function, in the order of the table.
            pub const ALL: &'static [Function] = &[$(Function::$variant),*];

            /// The name, as Mooncake has it in its class `WrappedMasterService`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Function::$variant => wire_name!($variant $($wire)?),)*
                }
            }

            /// The id on the wire.
            pub const fn id(self) -> u32 {
                match self {
                    $(Function::$variant => <$variant as Request>::ID,)*
                }
            }

            /// The literal of the arguments, which is empty if there are none.
            pub const fn argument_literal(self) -> &'static Literal {
                match self {
                    $(Function::$variant => const { &<$variant as Shape>::LITERAL },)*
                }
            }

            /// The literal of the result.
            pub const fn reply_literal(self) -> &'static Literal {
                match self {
                    $(Function::$variant => {
                        const { &<<$variant as Request>::Reply<'static> as Shape>::LITERAL }
                    })*
                }
            }

            /// The code of the arguments, or `None` if there are none.
            pub const fn argument_code(self) -> Option<u32> {
                match self {
                    $(Function::$variant => const { body::code_of::<$variant>() },)*
                }
            }

            /// The code of the result.
            pub const fn reply_code(self) -> u32 {
                match self {
                    $(Function::$variant => <<$variant as Request>::Reply<'static> as Shape>::CODE,)*
                }
            }
        }

        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $variant $(<$own>)? {
                $(
                    #[doc = concat!("The parameter `", stringify!($field), "`.")]
                    pub $field: $type,
                )*
            }

            impl $(<$own>)? Shape for $variant $(<$own>)? {
                const LITERAL: Literal =
                    Literal::of_arguments(&[$(<$type as Shape>::LITERAL),*]);
                const BYTES_MIN: usize = 0 $(+ <$type as Shape>::BYTES_MIN)*;
            }

            packing! { $life; $variant $(<$own>)? { $($field: $type,)* } }

            impl $(<$own>)? Request for $variant $(<$own>)? {
                const FUNCTION: Function = Function::$variant;
                const ID: u32 = md5_prefix(
                    concat!("mooncake::WrappedMasterService::", wire_name!($variant $($wire)?))
                        .as_bytes(),
                );
                type Reply<$reply_life> = $reply;
            }
        )*

        /// A request of any function, with its arguments.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(
            clippy::large_enum_variant,
            reason = "a call lives on the stack of the one who decodes it; a box would be an allocation"
        )]
        pub enum Call<$life> {
            $($(#[$meta])* $variant($variant $(<$own>)?),)*
        }

        impl<$life> Call<$life> {
            /// Reads the arguments of the function with this id. The id and the code of the
            /// arguments together choose the function.
            ///
            /// # Errors
            /// A [`CallError`] for an unknown id, a function with other arguments, or a body that
            /// is not what it should be.
            pub fn decode(function_id: u32, body: &$life [u8]) -> Result<Call<$life>, CallError> {
                let code = body::type_code_of(body);
                $(
                    if <$variant as Request>::ID == function_id
                        && const { body::code_of::<$variant>() }.is_none_or(|own| Some(own) == code)
                    {
                        let arguments = body::decode_body(body);
                        return match arguments {
                            Ok(arguments) => Ok(Call::$variant(arguments)),
                            Err(fault) => {
                                Err(CallError::Arguments { function: Function::$variant, fault })
                            }
                        };
                    }
                )*
                Err(unmatched(function_id, body))
            }

            /// The function.
            pub const fn function(&self) -> Function {
                match self {
                    $(Call::$variant(_) => Function::$variant,)*
                }
            }

            /// Writes the whole frame of the call to the end of `out`.
            ///
            /// # Errors
            /// `TooLarge` for a body of 4 GiB; `out` is as it was.
            pub fn append_to(
                &self,
                out: &mut Vec<u8>,
                seq: u32,
                form: Form,
            ) -> Result<(), TooLarge> {
                match self {
                    $(Call::$variant(arguments) => append_request(out, seq, arguments, form),)*
                }
            }
        }

        /// Reads the result of a function and writes it again, as tests and tools do that have no
        /// use for its type: the text of the result, and its body in the given form.
        ///
        /// # Errors
        /// A [`Fault`] if the body is not a result of the function.
        pub fn reread_reply(
            function: Function,
            body: &[u8],
            form: Form,
        ) -> Result<(String, Vec<u8>), Fault> {
            match function {
                $(Function::$variant => {
                    let reply: <$variant as Request>::Reply<'_> = body::decode_body(body)?;
                    let mut again = Vec::new();
                    body::append_body(&mut again, &reply, form);
                    Ok((format!("{reply:?}"), again))
                })*
            }
        }
    };
}

pub(super) use {functions, wire_name};

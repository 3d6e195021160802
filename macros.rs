//! Macros for the implementations that many types have alike.

/// Implements `Debug` for a struct: its name, and the fields listed, whose values are expressions
/// over the value that is named after `as`. With `..` the struct has more than it shows. A struct
/// with its one value in round brackets is shown as a tuple.
macro_rules! debug {
    (impl $(<$($T:ident $(: $Bound:path)?),+>)? $Type:ident $(<$($arg:tt),+>)? $(as $this:ident)? {
        $($field:ident: $value:expr),* $(,)?
    }) => {
        debug! {
            @ [$($($T $(: $Bound)?),+)?] $Type [$(<$($arg),+>)?] [$($this)?]
            debug_struct $([$value, $field])* finish
        }
    };
    (impl $(<$($T:ident $(: $Bound:path)?),+>)? $Type:ident $(<$($arg:tt),+>)? $(as $this:ident)? {
        $($field:ident: $value:expr,)* ..
    }) => {
        debug! {
            @ [$($($T $(: $Bound)?),+)?] $Type [$(<$($arg),+>)?] [$($this)?]
            debug_struct $([$value, $field])* finish_non_exhaustive
        }
    };
    (impl $(<$($T:ident $(: $Bound:path)?),+>)? $Type:ident $(<$($arg:tt),+>)? as $this:ident
        ($value:expr)
    ) => {
        debug! {
            @ [$($($T $(: $Bound)?),+)?] $Type [$(<$($arg),+>)?] [$this]
            debug_tuple [$value,] finish
        }
    };
    (@ [$($params:tt)*] $Type:ident [$($args:tt)*] [$($this:ident)?]
        $debug:ident $([$value:expr, $($field:ident)?])* $finish:ident
    ) => {
        impl<$($params)*> std::fmt::Debug for $Type $($args)* {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(let $this = self;)?
                let mut f = f.$debug(stringify!($Type));
                $({
                    // A lock that the value is read under is released before the formatter is used,
                    // which may be foreign code.
                    let value = &$value;
                    f.field($(stringify!($field),)? value);
                })*
                f.$finish()
            }
        }
    };
}

/// Implements `Error` and its `Display` for a type.
macro_rules! error {
    (impl $(<$($T:ident),+>)? $Type:ident $(<$($arg:tt),+>)?:
        |$this:tt, $f:ident| $display:expr
        $(, source: $self:ident.$source:ident())?
    ) => {
        impl $(<$($T),+>)? std::fmt::Display for $Type $(<$($arg),+>)? {
            fn fmt(&self, $f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                $display
            }
        }

        impl $(<$($T),+>)? std::error::Error for $Type $(<$($arg),+>)? {
            $(
                fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                    let $self = self;
                    $self.$source().map(|source| source as _)
                }
            )?
        }
    };
    // An error that holds a value of the user's, of which it shows nothing.
    (impl<$T:ident> $Type:ident(..): $text:literal) => {
        impl<$T> std::fmt::Debug for $Type<$T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($Type), "(..)"))
            }
        }

        error! { impl<$T> $Type<$T>: |_, f| f.write_str($text) }
    };
}

/// Lets values of a type be used after a panic was caught. The state behind them is consistent
/// wherever a panic can leave it.
macro_rules! unwind_safe {
    (impl $(<$($T:ident $(: $Bound:path)?),+>)? $Type:ident $(<$($arg:tt),+>)?) => {
        impl $(<$($T $(: $Bound)?),+>)? std::panic::UnwindSafe for $Type $(<$($arg),+>)? {}
        impl $(<$($T $(: $Bound)?),+>)? std::panic::RefUnwindSafe for $Type $(<$($arg),+>)? {}
    };
}

/// The default value of a type: the one that `new` makes.
macro_rules! default {
    (impl $(<$T:ident $(: $Bound:path)?>)? $Type:ident $(<$arg:ident>)?) => {
        impl $(<$T $(: $Bound)?>)? Default for $Type $(<$arg>)? {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// The setters of a builder, each for the field that it is named after.
macro_rules! setters {
    (impl $(<$T:ident>)? $Builder:ident $(<$arg:ident>)?;
        $($(#[$about:meta])* pub fn $field:ident($($value:ident: $type:ty)?) => $stored:expr;)*
    ) => {
        impl $(<$T>)? $Builder $(<$arg>)? {$(
            $(#[$about])*
            pub fn $field(mut self, $($value: $type)?) -> Self {
                self.$field = $stored;
                self
            }
        )*}
    };
}

//! Plans by value.

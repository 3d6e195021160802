//! Small programs, of the kind that the documentation of other libraries shows first, as their
//! users would write them here. docs/coming-from.md explains them. No error is unwrapped on its way
//! out, and no program names a type of the library that it does not use.

mod go;
mod kotlin;
mod rayon;
mod tokio;

/// What a program returns, as `main` would.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs a program on a few workers.
fn run<T: Send>(program: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    cygnet::Runtime::builder().workers(2).build()?.block_on(program)
}

/// Stands for a request to a server: an address without a scheme has none.
fn fetch(address: &str) -> Outcome<String> {
    cygnet::yield_now()?;
    let page = address.strip_prefix("http://").ok_or_else(|| format!("no scheme: {address}"))?;
    Ok(format!("the page of {page}"))
}

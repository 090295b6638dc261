// Package atomicfile replaces a file so that a crash at any moment, of the process or the machine, leaves the whole old
// content or the whole new one: the new content is written to a file beside it, made durable, renamed over the old one,
// and the directory is made durable.
//
// # Errors
//
// [ErrUncertain] says that the new content may be there, and may not be durable: the rename or what came after it
// failed. After any other error of [Write] the old content is there.
//
// # Concurrency
//
// Two writers of one file must exclude each other: [Lock] does it, between processes too.
package atomicfile

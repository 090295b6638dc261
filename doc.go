// Package sheetanchor is the root of a library of workflow primitives for Kubernetes volume backups. It holds no code;
// import the package you need:
//
//   - phase decides which phase of a backup or restore comes next, and applies it by compare-and-swap;
//   - operations keeps what is still running, and its record in a store, and asks for progress until it ends;
//   - csisnapshot takes CSI snapshots in pod batches that thaw as soon as the snapshots are cut, and keeps or deletes them;
//   - finalize runs the last steps once each, over restarts;
//   - volumeinfo records what happened to each volume;
//   - backuptest is an in-memory Kubernetes API server with a fake snapshot controller, for your tests and ours.
//
// Files and phase names are compatible with Velero. examples/backup shows one backup through all of them.
package sheetanchor

// Package scale holds no code, but tests: three servers, each a machine of its own to the
// others, over one Postgres database, by themselves and scheduled by Temporal, while networks,
// servers, the database and Temporal fail.
//
// make test-scale starts what they need. They are skipped without TIPSTAFF_POSTGRES_BIN, the
// folder of Postgres' programs, those with Temporal without TIPSTAFF_TEMPORAL_CLI, its program,
// and all where namespaces and mounts cannot be made, which takes root. Start at
// fault_linux_test.go; machine_linux_test.go is how one process is several machines,
// load_linux_test.go what the servers are given to do and how it has to end.
package scale

// Package scale holds no code, but tests: three servers, each a machine of its own to the
// others, over one Postgres database, while networks, servers and the database fail.
//
// make test-scale starts what they need. They are skipped without TIPSTAFF_POSTGRES_BIN, the
// folder of Postgres' programs, and where namespaces and mounts cannot be made, which takes
// root. Start at fault_test.go; machine_test.go is how one process is several machines,
// load_test.go what the servers are given to do and how it has to end.
package scale

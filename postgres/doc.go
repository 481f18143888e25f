// Package postgres keeps runs in a Postgres database, for several processes on
// several machines.
//
// The rules are those of package store. What differs from one file with one writer is
// said here: transactions of several processes run side by side. That two of them never
// write to one run is the work of the primary key of records: whoever appends where
// another has appended rolls back, forgets what it remembers and performs its ops again.
// What no key guards is done under a named lock.
//
// Keys stay in a folder of the machine, and are not in the database.
package postgres

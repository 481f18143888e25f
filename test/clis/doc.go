// Package clis holds no code, but tests: coding CLIs as their vendors publish them, against
// a model's API on the loopback interface (package api below) that says what each test tells
// it to say. scripts/clis.sh installs the CLIs from npm (make test-clis); without
// TIPSTAFF_CLIS in the environment everything here is skipped, for a machine may have neither
// Node nor a network.
//
// contract_test.go runs each CLI by hand, with the command lines that Tipstaff uses: what
// they print and how they end is a contract with programs that change every week. With
// -record it writes what they print to worker/testdata/streams, for tests that run without
// them. clis_test.go drives them through Tipstaff.
//
// Start at cli_test.go, then at the file that is named after a CLI.
package clis

// Package pb is the wire: the service other programs call and its messages.
//
// tipstaff/core/v1/core.proto is the source and the reference for every language;
// the files that end in .pb.go are generated from it by make generate. What stands
// there is for ever: fields are added, never changed. Old clients are tried in
// seed_test.go.
//
// The package converts and checks. It knows no run and makes no call, and what a
// message means is for its receiver to say.
//
// Start with core.proto, then [Check], which is for messages of others, and
// [ReadEnvelope].
package pb

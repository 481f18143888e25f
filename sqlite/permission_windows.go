package sqlite

import "io/fs"

// refuseWider: access lists are not modes; the folder's own protect the key.
func refuseWider(string, fs.FileMode) error { return nil }

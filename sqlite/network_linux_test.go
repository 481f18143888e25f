package sqlite

import (
	"strings"
	"testing"
)

const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:35 / /home/me/far rw,nosuid - fuse.sshfs me@host: rw
41 40 0:36 / /home/me/far/near rw - fuse.fuse-overlayfs overlay rw
`

func TestNetworkMounts(t *testing.T) {
	for dir, want := range map[string]bool{
		"/home/me/far":             true,
		"/home/me/far/x/.tipstaff": true,
		"/home/me/far/near/x":      false,
		"/home/me/farther":         false,
		"/":                        false,
	} {
		if _, network := networkMount(dir, mounts); network != want {
			t.Errorf("%s: %v", dir, network)
		}
	}
}

func FuzzNetworkMount(f *testing.F) {
	f.Add("/home/me/far", mounts)
	f.Add("", "- ")
	f.Add("/x", "1 2 3 4 /x - fuse.sshfs")
	f.Fuzz(func(t *testing.T, dir, mountinfo string) {
		if fstype, network := networkMount(dir, mountinfo); network && !strings.Contains(mountinfo, fstype) {
			t.Errorf("%q is not among the mounts", fstype)
		}
	})
}

package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
)

// Network file systems by the number that statfs reports. Their locks and
// shared memory are not good enough for a write-ahead log.
var networkMagic = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	0x00c36400:            "Ceph",
	0x0bd00bd0:            "Lustre",
}

// Network file systems that run through FUSE share one number; mountinfo tells
// them apart.
var networkFuse = []string{"fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph", "fuse.davfs"}

func refuseNetwork(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	name, network := networkMagic[int64(uint32(st.Type))]
	if !network && uint32(st.Type) == unix.FUSE_SUPER_MAGIC {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return nil // without a list of mounts nothing is known against it
		}
		name, network = networkMount(dir, string(mounts))
	}
	if network {
		return fmt.Errorf("%w: %s lies on a network file system (%s): use a folder on a local disk", flow.ErrReadOnly, dir, name)
	}
	return nil
}

// networkMount looks the folder up in the text of /proc/self/mountinfo.
func networkMount(dir, mountinfo string) (fstype string, network bool) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	longest := -1
	for line := range strings.Lines(mountinfo) {
		mount, rest, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !ok || len(fields) < 5 || !strings.HasPrefix(dir+"/", strings.TrimSuffix(fields[4], "/")+"/") || len(fields[4]) < longest {
			continue
		}
		longest = len(fields[4])
		fstype, _, _ = strings.Cut(rest, " ")
	}
	return fstype, slices.Contains(networkFuse, fstype)
}

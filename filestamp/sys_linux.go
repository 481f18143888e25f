package filestamp

import "syscall"

func (s *Stamp) look(sys any) {
	if stat, ok := sys.(*syscall.Stat_t); ok {
		s.Changed, s.Device, s.Inode = stat.Ctim.Nano(), int64(stat.Dev), int64(stat.Ino)
	}
}

package scale

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setClock has the clock of a process that has just been started, and is traced by this
// thread, be off. A program without libc asks the kernel's own code in its memory (the
// vDSO) for the time: that is replaced by a system call and an addition. The monotonic clock
// stays as it is.
func setClock(pid int, by time.Duration) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	base, err := vdso(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image := make([]byte, 2*os.Getpagesize())
	if _, err := mem.ReadAt(image, base); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne to the end
		0x48, 0x81, 0x06, // add qword [rsi], the seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(by/time.Second)))
	code = append(code, 0xc3) // ret
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			if _, err := mem.WriteAt(code, base+int64(s.Value)); err != nil {
				return err
			}
			return unix.PtraceDetach(pid)
		}
	}
	return fmt.Errorf("no clock_gettime among %d symbols of the vDSO", len(symbols))
}

// vdso is where the kernel has put its code.
func vdso(pid int) (int64, error) {
	const sysinfo = 33 // AT_SYSINFO_EHDR
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == sysinfo {
			return int64(binary.LittleEndian.Uint64(vector[8:])), nil
		}
	}
	return 0, fmt.Errorf("process %d has no vDSO", pid)
}

package flowtest

import "testing"

func TestMem(t *testing.T) {
	Run(t, func(*testing.T) Bed { return NewMem() })
}

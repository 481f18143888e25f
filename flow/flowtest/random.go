package flowtest

import "testing"

func random(t *testing.T, open opener) {}

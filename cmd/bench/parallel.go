package main

import (
	"errors"
	"sync"
)

// parallel calls do with every item at once and returns all errors.
func parallel[T any](items []T, do func(*T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i := range items {
		all.Go(func() { errs[i] = do(&items[i]) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Package file reads the two files that people write for models: tables of what
// models can do and cost ([ParseTable]), and scripts ([ParseScript]). It opens
// nothing itself. Every problem it finds has its line and column.
package file

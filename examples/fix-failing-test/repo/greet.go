// Package greet says hello.
package greet

// Hello greets a person by name, and the world when the name is empty.
func Hello(name string) string {
	return "Hello, " + name + "!"
}

package transport

// CheckHeaders reports what is wrong with headers that a configuration adds to every call of a provider. The error
// names the header and never its value.
func CheckHeaders(headers map[string]string) error { return checkHeaders(headers, "") }

namespace "d\u0065v" {
	policy = "\U00000072ead"
}
plugin { policy = "write" }
module example.test/greet

go 1.24

pub fn linux_io_2012() {}

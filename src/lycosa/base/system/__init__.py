"""The machine and the operating system: durable files, frames, clocks, memory, cores."""

y = a + a

hasten --version

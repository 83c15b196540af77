hasten rnu
echo $?
hasten xyzzyplugh
echo $?
hasten help rnu
